"""Options that several commands share, and the settings that are made of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beliefrag.cli.output import enable_debug

if TYPE_CHECKING:
    from beliefrag.integrations.otel import Tracing

__all__ = [
    "BaseUrl",
    "Borrow",
    "Calibration",
    "Confidence",
    "Config",
    "Debug",
    "Docs",
    "Index",
    "Label",
    "MaxError",
    "Method",
    "Model",
    "NoCache",
    "NoOpen",
    "Otel",
    "OtelText",
    "Pack",
    "Prompts",
    "Retriever",
    "Verifier",
    "collect_settings",
    "join_docs",
    "tracing",
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
Index = Annotated[
    Path | None,
    typer.Option("--index", metavar="DIR", help="An index made with 'beliefrag index'.", rich_help_panel=_DOCUMENTS),
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
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Address of an OpenAI-compatible server, such as http://localhost:8000/v1. Its key is read from "
        "OPENAI_API_KEY.",
        rich_help_panel=_MODEL,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME[:KEY=VALUE,...]",
        help="The method that answers, with its options, such as iterative:rounds=2; beliefrag by default. Other "
        "methods need no calibration, and do not say how sure they are.",
        rich_help_panel=_MODEL,
    ),
]
Retriever = Annotated[
    str | None,
    typer.Option(
        "--retriever",
        metavar="NAME[:KEY=VALUE,...]",
        help="What searches the documents, with its options; bm25 by default.",
        rich_help_panel=_DOCUMENTS,
    ),
]
Pack = Annotated[
    int | None,
    typer.Option(
        "--pack",
        metavar="WORDS",
        min=20,
        help="Show the model the best sentences of the evidence, up to so many words, instead of whole passages.",
        rich_help_panel=_DOCUMENTS,
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="NAME|FILE",
        help="A calibration fitted for this model; by default the shipped one.",
        rich_help_panel=_MODEL,
    ),
]
Borrow = Annotated[
    str | None,
    typer.Option(
        "--borrow",
        metavar="NAME|FILE",
        help="Use a calibration that was fitted for another model, verifier form, prompts or retriever, knowing that "
        "its probabilities may be off; 'published' is the paper's.",
        rich_help_panel=_MODEL,
    ),
]
MaxError = Annotated[
    float | None,
    typer.Option(
        "--max-error",
        metavar="SHARE",
        help="Decline rather than let more than this share of the answers be wrong, 0.1 for instance. The calibration "
        "must hold a guarantee for it; see 'beliefrag calibrate risk'.",
        rich_help_panel=_MODEL,
    ),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        "--confidence",
        metavar="SHARE",
        help="The probability with which --max-error must hold; 0.9 by default.",
        rich_help_panel=_MODEL,
    ),
]
Verifier = Annotated[
    str | None,
    typer.Option(
        "--verifier",
        metavar="FORM",
        help="How the model is asked about the evidence: structured, graded or probability; by default what suits "
        "the model.",
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
NoCache = Annotated[
    bool,
    typer.Option("--no-cache", metavar="", help="Neither use nor keep recorded model replies.", rich_help_panel=_MODEL),
]
NoOpen = Annotated[
    bool, typer.Option("--no-open", metavar="", help="Print the address of the page, and open no browser.")
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings in TOML; by default beliefrag.toml in this folder, if there is one."
    ),
]
Otel = Annotated[
    bool,
    typer.Option(
        "--otel",
        metavar="",
        help="Send OpenTelemetry traces, to where the OTEL_* variables say; needs the extra beliefrag[otel].",
        rich_help_panel="Watching",
    ),
]
OtelText = Annotated[
    bool,
    typer.Option(
        "--otel-text",
        metavar="",
        help="Let traces hold questions, passages, prompts and replies; without it they hold numbers and ids.",
        rich_help_panel="Watching",
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
    """The paths after --docs. A shell turns `--docs notes/*.md` into one option and further arguments."""
    if further and not docs:
        raise typer.BadParameter(f"{str(further[0])!r} is one argument too many", param_hint="--docs")
    return [*docs, *(further or ())] if docs else None


@contextlib.contextmanager
def tracing(otel: bool, otel_text: bool) -> Iterator[Tracing | None]:
    """Opens tracing as --otel and --otel-text say, and sends the rest of the spans at the end."""
    if otel_text and not otel:
        raise typer.BadParameter("--otel-text needs --otel: it says what the traces hold", param_hint="--otel-text")
    if not otel:
        yield None
        return
    from beliefrag.integrations.otel import open_tracing  # noqa: PLC0415 - only who asks for it waits for it

    opened = open_tracing(text=otel_text)
    try:
        yield opened
    finally:
        opened.close()


def collect_settings(
    *,
    method: str | None = None,
    retriever: str | None = None,
    pack: int | None = None,
    model: str | None = None,
    base_url: str | None = None,
    calibration: str | None = None,
    borrow: str | None = None,
    verifier: str | None = None,
    prompts: Path | None = None,
    max_error: float | None = None,
    confidence: float | None = None,
    no_cache: bool = False,
    **others: Any,
) -> dict[str, Any]:
    """The options that were typed, by the names of the settings. An option that was not typed is None."""
    return {
        "method": method,
        "retriever": retriever,
        "pack": pack,
        "model": model,
        "base_url": base_url,
        "calibration": calibration,
        "borrow": borrow,
        "verifier": verifier,
        "prompts": prompts,
        "max_error": max_error,
        "confidence": confidence,
        "cache": False if no_cache else None,
        **others,
    }
