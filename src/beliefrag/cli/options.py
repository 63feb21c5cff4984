"""Options that several commands share, and the settings that are made of them."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer

from beliefrag.cli.output import enable_debug

if TYPE_CHECKING:
    from beliefrag.integrations.otel import Tracing
    from beliefrag.settings import Settings

__all__ = [
    "CalibrationOptions",
    "Config",
    "Debug",
    "Docs",
    "DocumentOptions",
    "Feedback",
    "FurtherFolders",
    "FurtherPaths",
    "Label",
    "Method",
    "Model",
    "ModelOptions",
    "NoOpen",
    "Pack",
    "PromptOptions",
    "Prompts",
    "Retriever",
    "RiskOptions",
    "SearchOptions",
    "SettingsGroup",
    "TracingOptions",
    "Verifier",
    "join_docs",
    "read_settings",
    "tracing",
    "with_option_groups",
]

_MODEL = "Model"
_DOCUMENTS = "Documents"

Docs = Annotated[
    list[Path] | None,
    typer.Option(
        "--docs",
        metavar="PATH...",
        help="Files and folders to answer from. Their index is kept in the cache folder and follows their changes.",
        rich_help_panel=_DOCUMENTS,
        show_default=False,
    ),
]
FurtherPaths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH",
        help="Further files and folders after --docs (or --data): a shell makes them of '--docs notes/*.md'.",
        show_default=False,
    ),
]
FurtherFolders = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DIR", help="Further folders after --data: '--data a b' is '--data a --data b'.", show_default=False
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="local:NAME or local:FILE.gguf runs on this machine; any other name is a model of the server at "
        "--base-url; scripted:FILE replays a script. By default local:qwen2.5-coder-1.5b.",
        rich_help_panel=_MODEL,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME[:KEY=VALUE,...]",
        help="The method that answers, with its options, such as iterative:rounds=2; by default lean for the embedded "
        "model, beliefrag for any other. Further methods need no calibration, and do not say how sure they are.",
        rich_help_panel=_MODEL,
    ),
]
Retriever = Annotated[
    str | None,
    typer.Option(
        "--retriever",
        metavar="NAME[:KEY=VALUE,...]",
        help="What searches the documents, with its options; by default linked for lean, bm25 for other methods.",
        rich_help_panel=_DOCUMENTS,
    ),
]
Pack = Annotated[
    int | None,
    typer.Option(
        "--pack",
        metavar="WORDS",
        min=0,
        help="Show the model the best sentences of the evidence, up to this many words (20 or more); 0 shows whole "
        "passages. By default 160 for lean, whole passages for other methods.",
        rich_help_panel=_DOCUMENTS,
    ),
]
Verifier = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="FORM",
        help="The form in which the model is asked about the evidence, such as structured, slots or probability; "
        "'beliefrag config extensions' lists all. By default the one that suits the model.",
        rich_help_panel=_MODEL,
    ),
]
Prompts = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="DIR",
        help="A folder with prompts that replace ours; see 'beliefrag prompt list'.",
        rich_help_panel=_MODEL,
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What says that an answer was right: judge, f1 (from one half on), exact_match or cover. By default the "
        "judge where every answer was judged, otherwise f1.",
    ),
]
NoOpen = Annotated[
    bool, typer.Option("--no-open", metavar="", help="Print the address of the page, and open no browser.")
]
Feedback = Annotated[
    Path | None,
    typer.Option(
        "--feedback",
        metavar="FILE",
        help="Where verdicts on answers are kept, as labelled questions for 'beliefrag calibrate'; by default "
        "feedback.jsonl in this folder.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings in TOML; by default beliefrag.toml in this folder, if there is one."
    ),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        metavar="",
        callback=enable_debug,
        is_eager=True,
        help="Say more, with tracebacks, on standard error.",
    ),
]


def join_docs(docs: list[Path] | None, further: list[Path] | None) -> list[Path] | None:
    """Gives the paths after --docs. A shell turns `--docs notes/*.md` into one option and further arguments."""
    if further and not docs:
        raise typer.BadParameter(f"{str(further[0])!r} is one argument too many", param_hint="--docs")
    return [*docs, *(further or ())] if docs else None


@contextlib.contextmanager
def tracing(options: TracingOptions) -> Iterator[Tracing | None]:
    """Opens tracing as the options say, and sends the rest of the spans at the end."""
    if options.otel_text and not options.otel:
        raise typer.BadParameter("--otel-text needs --otel: it says what the traces hold", param_hint="--otel-text")
    if not options.otel:
        yield None
        return
    from beliefrag.integrations.otel import open_tracing  # noqa: PLC0415 - only who asks for it waits for it

    opened = open_tracing(text=options.otel_text)
    try:
        yield opened
    finally:
        opened.close()


class SettingsGroup:
    """Options whose names are those of settings. An option that was not typed is None."""

    def as_settings(self) -> dict[str, Any]:
        """Gives the options that were typed, by the names of the settings."""
        return {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentOptions:
    """What a question is answered from."""

    docs: Docs = None
    index: Annotated[
        Path | None,
        typer.Option(
            "--index", metavar="DIR", help="An index made with 'beliefrag index'.", rich_help_panel=_DOCUMENTS
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions(SettingsGroup):
    """What searches the documents, and how much of what it found a prompt shows."""

    retriever: Retriever = None
    pack: Pack = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(SettingsGroup):
    """Which model is asked, and where it runs."""

    model: Model = None
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url",
            metavar="URL",
            help="Address of an OpenAI-compatible server, such as http://localhost:8000/v1. Its key is read from "
            "OPENAI_API_KEY. Without --model, the one model that it has is asked.",
            rich_help_panel=_MODEL,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationOptions(SettingsGroup):
    """Which calibration turns what the model says into probabilities."""

    calibration: Annotated[
        str | None,
        typer.Option(
            "--calibration",
            metavar="NAME|FILE",
            help="A calibration fitted for this model; by default the shipped one.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    borrow: Annotated[
        str | None,
        typer.Option(
            "--borrow",
            metavar="NAME|FILE",
            help="Use a calibration that was fitted for another model, verifier form, prompts or retriever, knowing "
            "that its probabilities may be off; 'published' is the paper's.",
            rich_help_panel=_MODEL,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskOptions(SettingsGroup):
    """How many of the given answers may be wrong."""

    max_error: Annotated[
        float | None,
        typer.Option(
            "--max-error",
            metavar="SHARE",
            help="Decline rather than let more than this share of the answers be wrong, 0.1 for instance. The "
            "calibration must hold a guarantee for it; see 'beliefrag calibrate risk'.",
            rich_help_panel=_MODEL,
        ),
    ] = None
    confidence: Annotated[
        float | None,
        typer.Option(
            "--confidence",
            metavar="SHARE",
            help="The probability with which --max-error must hold; 0.9 by default.",
            rich_help_panel=_MODEL,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions(SettingsGroup):
    """How the model is asked."""

    verifier: Verifier = None
    prompts: Prompts = None
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache", metavar="", help="Neither use nor keep recorded model replies.", rich_help_panel=_MODEL
        ),
    ] = False

    def as_settings(self) -> dict[str, Any]:
        """Gives the options that were typed, by the names of the settings."""
        return {"verifier": self.verifier, "prompts": self.prompts, "cache": False if self.no_cache else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingOptions:
    """Whether OpenTelemetry traces are sent."""

    otel: Annotated[
        bool,
        typer.Option(
            "--otel",
            metavar="",
            help="Send OpenTelemetry traces, to where the OTEL_* variables say; needs the extra beliefrag[otel].",
            rich_help_panel="Watching",
        ),
    ] = False
    otel_text: Annotated[
        bool,
        typer.Option(
            "--otel-text",
            metavar="",
            help="Let traces hold questions, passages, prompts and replies; without it they hold numbers and ids.",
            rich_help_panel="Watching",
        ),
    ] = False


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command one option per field of each parameter whose type is a dataclass.

    The fields stand in the place of the parameter, so that the order of the parameters is the order in the help.
    """
    hints = get_type_hints(command, include_extras=True)
    hints.pop("return", None)
    groups = {name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            kinds = get_type_hints(groups[name], include_extras=True)
            for field in fields(groups[name]):
                default = inspect.Parameter.empty if field.default is MISSING else field.default
                parameters.append(
                    inspect.Parameter(
                        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kinds[field.name]
                    )
                )
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    @functools.wraps(command)
    def run_command(**values: Any) -> None:
        made = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **made)

    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {each.name: each.annotation for each in parameters}
    return run_command


def read_settings(*groups: SettingsGroup, config: Path | None, **others: Any) -> Settings:
    """Reads the settings in force, of which the options that were typed come first.

    For a command that has the options of a model, a server without a model stands for the one model that it has.

    Raises:
        SettingsError: A setting has a wrong value, or the server does not have exactly one model.
        typer.BadParameter: --confidence was given without a limit that it could belong to.
    """
    from beliefrag.settings import load_settings  # noqa: PLC0415 - `beliefrag --help` does not wait for it

    typed = {name: value for group in groups for name, value in group.as_settings().items()}
    settings = load_settings({**typed, **others}, config=config).settings
    if any(isinstance(group, ModelOptions) for group in groups):
        from beliefrag.models.server_models import use_server_model  # noqa: PLC0415

        settings = use_server_model(settings)
    if typed.get("confidence") is not None and settings.max_error is None:
        raise typer.BadParameter(
            "--confidence needs --max-error: it is the probability with which that limit holds",
            param_hint="--confidence",
        )
    return settings
