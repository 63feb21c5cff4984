"""A group of commands whose help shows each option as it is typed: a switch such as --help takes no value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from beliefrag.cli.root_help import COMMANDS, format_root_help

__all__ = ["CommandGroup", "RootGroup"]

_ELSEWHERE = {"ask": "ask.ask", "app": "ask_page.ask_page", "demo": "demo.demo", "index": "index.index"}
_ELSEWHERE |= {"tune": "tune.tune", "study": "study.study", "view": "view.view", "doctor": "doctor.doctor"}
"""Commands of one word, with their modules and functions; each other one is the `app` of the module of its name."""


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        """Gives the options and arguments, of which switches are shown without a type."""
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        """Gives the options and arguments, of which switches are shown without a type."""
        return _without_types(super().get_params(ctx))


class RootGroup(_Group):
    """The whole program, whose help is the same text that `beliefrag --help` prints without importing the commands.

    A command is imported and made when it is looked up, so that none waits for the options of all others.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.commands: Mapping[str, Any] = _Commands()  # type: ignore[assignment]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints the help itself, as typer's own groups do."""
        typer.echo(format_root_help(), nl=False)


class CommandGroup(typer.Typer):
    """The same as typer's, but for the help of its commands."""

    def __init__(self, *, cls: type[_Group] = _Group, **how: Any) -> None:
        super().__init__(cls=cls, **how)

    def command(self, name: str | None = None, **how: Any) -> Callable[[Any], Any]:
        """Registers a command."""
        return super().command(name, cls=_Command, **how)


class _Commands(Mapping[str, Any]):
    """All commands of the program by name, in the order of its help."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS:
            raise KeyError(name)
        return _load_command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _load_command(name: str) -> Any:
    module, _, attribute = _ELSEWHERE.get(name, f"{name}.app").partition(".")
    found = getattr(import_module(f"beliefrag.cli.{module}"), attribute)
    group = CommandGroup(rich_markup_mode="markdown")
    if isinstance(found, CommandGroup):
        group.add_typer(found, name=name)
    else:
        group.command(name)(found)
    return typer.main.get_group(group).commands[name]


def _without_types(parameters: Any) -> Any:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
