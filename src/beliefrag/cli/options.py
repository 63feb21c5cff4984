"""The options of commands: those of settings that people change daily, --set for the others, and shared ones.

A command that takes settings is decorated with `with_settings`. It gets one option for each setting that is named, and
`--set NAME=VALUE` for all of them. A parameter whose type is a dataclass stands for its fields: a field with a
`typer.Option` is an option, any other field is set by `--set SECTION.FIELD=VALUE`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from pydantic import TypeAdapter, ValidationError
from typer.models import OptionInfo

from beliefrag.errors import SettingsError
from beliefrag.settings import Settings, describe_error, load_settings

__all__ = [
    "Documents",
    "FurtherPaths",
    "GivenSettings",
    "Json",
    "Label",
    "NoOpen",
    "OwnDocs",
    "Port",
    "Yes",
    "flag",
    "join_paths",
    "with_settings",
]


def flag(name: str, help_: str, *more: str) -> Any:
    """Return an option that takes no value."""
    return typer.Option(name, *more, metavar="", help=help_)


OwnDocs = Annotated[
    list[Path] | None,
    typer.Option("--docs", metavar="PATH...", help="Files and folders to answer from.", show_default=False),
]
FurtherPaths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATH", help="Further paths after --docs or --data.", show_default=False),
]
Label = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What makes an answer right: judge, f1 (at least 0.5), exact_match or cover."),
]
Json = Annotated[bool, flag("--json", "Print one JSON object.")]
NoOpen = Annotated[bool, flag("--no-open", "Print the address, and open no browser.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")]
Yes = Annotated[bool, flag("--yes", "Do not ask for confirmation.", "-y")]

_Config = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings in TOML.", hidden=True)]
_METAVARS = {"base_url": "URL", "max_error": "SHARE", "pack": "WORDS", "prompts": "DIR"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What questions are answered from."""

    docs: OwnDocs = None
    index: Annotated[
        Path | None, typer.Option("--index", metavar="DIR", help="An index made by 'beliefrag index'.")
    ] = None


@dataclass(frozen=True, slots=True)
class GivenSettings:
    """The settings that were typed, and the settings file."""

    values: Mapping[str, Any]
    """By dotted name."""
    config: Path | None

    def load(self, **more: Any) -> Settings:
        """Return the settings in force.

        A server without a model stands for the one model that it has.

        Args:
            more: Further settings that were typed; None values are ignored.

        Raises:
            SettingsError: A setting has an invalid value, or the server does not have exactly one model.
        """
        from beliefrag.models.providers import use_server_model  # noqa: PLC0415 - the help does not wait for it

        return use_server_model(load_settings({**self.values, **more}, config=self.config).settings)


def join_paths(paths: list[Path] | None, further: list[Path] | None) -> list[Path] | None:
    """Return the paths after --docs or --data. A shell expands `--docs notes/*.md` to one option and arguments."""
    if further and not paths:
        raise typer.BadParameter(f"unexpected argument {str(further[0])!r}")
    return [*paths, *(further or ())] if paths else None


def with_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a command with a parameter of type `GivenSettings`.

    Args:
        names: The settings that have an option of their own. Its type and help are those of the setting.
    """
    return functools.partial(_expand_options, names)


def _expand_options(names: Iterable[str], command: Callable[..., None]) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind) and kind is not GivenSettings}
    given = next(name for name, kind in hints.items() if kind is GivenSettings)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name == given:
            parameters += [_parameter(each, _setting_option(each)) for each in names]
            parameters += [_parameter("set_", _set_option(groups.values())), _parameter("config", _Config)]
        elif name in groups:
            options = _group_options(groups[name])
            defaults = {field.name: field.default for field in fields(groups[name])}
            parameters += [_parameter(each, option, defaults[each]) for each, option in options.items()]
        else:
            parameters.append(parameter.replace(annotation=hints[name]))

    @functools.wraps(command)
    def run_command(**values: Any) -> None:
        typed = _read_pairs(values.pop("set_") or ())
        for name, group in groups.items():
            chosen = {each: values.pop(each) for each in _group_options(group)}
            values[name] = _make_group(group, {**chosen, **_take_section(typed, group)})
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
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        metavar=_METAVARS.get(name, "NAME"),
        help=f"{words[0].upper()}{words[1:]}.",
        show_default=False,
    )
    return Annotated[field.annotation | None, option]  # type: ignore[operator]


def _set_option(groups: Iterable[Any]) -> Any:
    others = [
        f"{group.section}.{field.name}"
        for group in groups
        for field in fields(group)
        if field.name not in _group_options(group)
    ]
    words = "Any other setting, such as budget.rounds=2; 'beliefrag config show' lists them. Repeatable."
    if others:
        words += f" Also: {', '.join(others)}."
    return Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=words)]


def _group_options(group: Any) -> dict[str, Any]:
    """Return the annotation of each field that is an option of its own."""
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: hints[field.name]
        for field in fields(group)
        if any(isinstance(each, OptionInfo) for each in get_args(hints[field.name]))
    }


def _read_pairs(typed: Iterable[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for each in typed:
        name, equals, value = (part.strip() for part in each.partition("="))
        if not (name and equals):
            raise SettingsError(f"--set {each!r} has no value.", remedy="Write it as --set section.key=value.")
        values[name] = value
    return values


def _take_section(typed: dict[str, str], group: Any) -> dict[str, str]:
    """Move the values of a group's section out of what was typed."""
    prefix = f"{getattr(group, 'section', '')}."
    return {name.removeprefix(prefix): typed.pop(name) for name in list(typed) if name.startswith(prefix)}


def _make_group(group: Any, values: Mapping[str, Any]) -> Any:
    if unknown := values.keys() - {field.name for field in fields(group)}:
        known = ", ".join(field.name for field in fields(group) if field.name not in _group_options(group))
        raise SettingsError(f"There is no setting '{group.section}.{min(unknown)}'.", remedy=f"Known: {known}.")
    try:
        return TypeAdapter(group).validate_python(values)
    except ValidationError as error:
        raise describe_error(error, {}, prefix=f"{group.section}.") from None
