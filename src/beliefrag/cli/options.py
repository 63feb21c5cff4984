"""The options of commands: those of settings that people change daily, --set for the others, and shared ones.

A command that takes settings is decorated with `with_settings`. It gets one option for each setting that is named, and
`--set NAME=VALUE` for all of them. A parameter whose type is a dataclass stands for its fields: a field with a
`typer.Option` is an option, any other field is set by `--set SECTION.FIELD=VALUE`.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_type_hints

import typer
from pydantic import Field, TypeAdapter, ValidationError
from typer.models import OptionInfo

import beliefrag
from beliefrag.cli.output import print_notice, show_status
from beliefrag.errors import SettingsError
from beliefrag.settings import Settings, describe_error, load_settings

if TYPE_CHECKING:
    from beliefrag.bench.questions import Dataset
    from beliefrag.bench.setup import RunSpec


def flag(name: str, help_: str, *more: str) -> Any:
    """Return an option that takes no value."""
    return typer.Option(name, *more, metavar="", help=help_)


def option(metavar: str, help_: str, *names: str, **how: Any) -> Any:
    """Return an option that takes a value."""
    return typer.Option(*names, metavar=metavar, help=help_, **how)


def argument(metavar: str, help_: str) -> Any:
    """Return an argument."""
    return typer.Argument(metavar=metavar, help=help_)


OwnDocs = Annotated[list[Path] | None, option("PATH...", "Files and folders to answer from.", "--docs")]
FurtherPaths = Annotated[list[Path] | None, argument("PATH", "Further paths after --docs or --data.")]
Label = Annotated[str | None, option("NAME", "How to tell right answers: judge, f1, exact_match or cover.")]
Json = Annotated[bool, flag("--json", "Print one JSON object.")]
NoOpen = Annotated[bool, flag("--no-open", "Print the address, and open no browser.")]
Yes = Annotated[bool, flag("--yes", "Do not ask for confirmation.", "-y")]
DryRun = Annotated[bool, flag("--dry-run", "Print the estimate, and end.")]
Data = Annotated[list[Path] | None, option("DIR...", "Datasets in the common form; see 'beliefrag data'.", "--data")]
Out = Annotated[Path, option("RUN", "The folder of the run. An existing run is resumed.", "--out")]
NoJudge = Annotated[bool, flag("--no-judge", "Leave the judge out. The same command without it judges later.")]
Config = Annotated[Path | None, option("FILE", "Settings in TOML; works with every command.", "--config")]

_METAVARS = {"answer_style": "STYLE", "base_url": "URL", "max_error": "SHARE", "pack": "WORDS", "prompts": "DIR"}


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """The settings that were typed, and the settings file."""

    values: Mapping[str, Any]
    config: Path | None

    def read(self) -> Settings:
        """Return the settings in force."""
        return load_settings(self.values, config=self.config).settings

    def load(self, **more: Any) -> Settings:
        """Return the settings in force with `more` of them, and with the one model of the server if none was named."""
        from beliefrag.models.providers import use_server_model

        return use_server_model(load_settings({**self.values, **more}, config=self.config).settings)


def join_paths(paths: list[Path] | None, further: list[Path] | None) -> list[Path] | None:
    """Return the paths after --docs or --data. A shell expands `--docs notes/*.md` to one option and arguments."""
    if further and not paths:
        raise typer.BadParameter(f"unexpected argument {str(further[0])!r}")
    return [*paths, *(further or ())] if paths else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What questions are answered from."""

    docs: OwnDocs = None
    index: Annotated[Path | None, option("DIR", "An index made by 'beliefrag index'.", "--index")] = None
    where: Annotated[
        str | None, option("FILTER", "Only passages that match, such as 'type=pdf and year>=2024'.", "--where")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledQuestions:
    """Questions with known answers: of benchmarks, or your own."""

    data: Data = None
    questions: Annotated[Path | None, option("FILE", "Your questions with answers (CSV, TSV, JSON Lines).")] = None
    docs: OwnDocs = None

    def read(self, further: list[Path] | None) -> tuple[tuple[Path, ...], tuple[Dataset, ...]]:
        """Return the folders of benchmarks, or the dataset of own questions."""
        if (self.questions is None) == (not self.data):
            raise SettingsError(
                "Needs questions with answers.", remedy="Give either --data DIR, or --questions and --docs."
            )
        if (self.questions is None) != (not self.docs):
            raise SettingsError("--questions and --docs go together.", remedy="Give both, or --data alone.")
        if self.questions is None:
            return tuple(join_paths(self.data, further) or ()), ()
        with show_status("reading documents"):
            dataset = beliefrag.bench.user_dataset(self.questions, join_paths(self.docs, further) or [])
        if skipped := dataset.card.skipped:
            print_notice(f"note: {len(skipped)} of the questions left out: {skipped[0]}.")
        return (), (dataset,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Which labelled questions are asked, and how."""

    section: ClassVar[str] = "run"

    n: Annotated[int | None, option("N", "Questions of each dataset.", "--n", min=1)] = None
    split: Annotated[list[str] | None, option("NAME", "Only questions of this split. Repeatable.")] = None
    dry_run: DryRun = False
    yes: Yes = False
    replay: bool = False
    seed: int = 0
    judge_model: str | None = None
    judge_base_url: str | None = None
    noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    counterfactual: Annotated[float, Field(ge=0, le=1)] = 0.0
    allow_seen: bool = False

    @property
    def names_judge(self) -> bool:
        """Whether a judge was named, other than the run's model."""
        return bool(self.judge_model or self.judge_base_url)

    def make_spec(self, settings: Settings, *, judge: bool, download: bool = True) -> RunSpec:
        """Return the specification of a run, without datasets and methods; by default download missing weights."""
        from beliefrag.bench.setup import RunSpec
        from beliefrag.cli.model import ensure_weights
        from beliefrag.runs.record import Injection

        if self.names_judge and not judge:
            raise SettingsError("--no-judge leaves out the judge that was named.", remedy="Give one or the other.")
        if download and not (self.replay or self.dry_run):
            for model in filter(None, (settings.model, self.judge_model)):
                ensure_weights(model, agreed=self.yes)
        return RunSpec(
            n=self.n,
            seed=self.seed,
            splits=tuple(self.split or ()),
            judge=judge,
            judge_model=self.judge_model,
            judge_base_url=self.judge_base_url,
            injection=Injection(self.noise, self.counterfactual, self.seed),
            allow_seen=self.allow_seen,
            replay=self.replay,
            preview=self.dry_run,
        )


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with a parameter of type `GivenSettings`; `names` get an option of their own."""
    return functools.partial(_expand_options, names)


def _expand_options(names: Iterable[str], command: Callable[..., None]) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind) and kind is not GivenSettings}
    given = next(name for name, kind in hints.items() if kind is GivenSettings)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name == given:
            parameters += [_parameter(each, _setting_option(each)) for each in names]
            config = Annotated[Path | None, option("FILE", "Settings in TOML.", "--config", hidden=True)]
            parameters += [_parameter("set_", _set_option(groups.values())), _parameter("config", config)]
        elif name in groups:
            defaults = {field.name: field.default for field in fields(groups[name])}
            parameters += [_parameter(each, kind, defaults[each]) for each, kind in _own_options(groups[name]).items()]
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    @functools.wraps(command)
    def run_command(**values: Any) -> None:
        typed = _read_pairs(values.pop("set_") or ())
        for name, group in groups.items():
            values[name] = _make_group(group, {each: values.pop(each) for each in _own_options(group)}, typed)
        settings = {name: value for name in names if (value := values.pop(name)) is not None}
        values[given] = GivenSettings({**settings, **typed}, values.pop("config"))
        command(**values)

    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run_command.__annotations__ = {each.name: each.annotation for each in parameters}
    return run_command


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _setting_option(name: str) -> Any:
    field = Settings.model_fields[name]
    words = field.description or ""
    told, typed = f"{words[0].upper()}{words[1:]}.", f"--{name.replace('_', '-')}"
    shown = option(_METAVARS.get(name, "NAME"), told, typed, hidden=name == "borrow")
    return Annotated[field.annotation | None, shown]  # type: ignore[operator]


def _set_option(groups: Iterable[Any]) -> Any:
    words = "Any other setting, such as budget.rounds=2; 'beliefrag config show' lists them. Repeatable."
    if others := [f"{group.section}.{name}" for group in groups for name in _hidden_options(group)]:
        words += f" Also: {', '.join(others)}."
    return Annotated[list[str] | None, option("NAME=VALUE", words, "--set")]


def _own_options(group: Any) -> dict[str, Any]:
    """Return the annotation of each field that is an option of its own."""
    hints = get_type_hints(group, include_extras=True)
    kinds = {field.name: hints[field.name] for field in fields(group)}
    return {name: kind for name, kind in kinds.items() if any(isinstance(each, OptionInfo) for each in get_args(kind))}


def _hidden_options(group: Any) -> list[str]:
    return [field.name for field in fields(group) if field.name not in _own_options(group)]


def _read_pairs(typed: Iterable[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for each in typed:
        name, equals, value = (part.strip() for part in each.partition("="))
        if not (name and equals):
            raise SettingsError(f"--set {each!r} has no value.", remedy="Write it as --set section.key=value.")
        # Below an option such as models.openai.extra_body, any JSON can be meant.
        values[name] = _read_json(value) if name.count(".") > 2 else value
    return values


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _make_group(group: Any, values: dict[str, Any], typed: dict[str, str]) -> Any:
    """Return the group, and take the values of its section out of what was typed with --set."""
    prefix = f"{getattr(group, 'section', '')}."
    values |= {name.removeprefix(prefix): typed.pop(name) for name in list(typed) if name.startswith(prefix)}
    if unknown := values.keys() - {field.name for field in fields(group)}:
        known = ", ".join(_hidden_options(group))
        raise SettingsError(f"Unknown setting '{prefix}{min(unknown)}'.", remedy=f"Known: {known}.")
    try:
        return TypeAdapter(group).validate_python(values)
    except ValidationError as error:
        raise describe_error(error, {}, prefix=prefix) from None
