"""A group of commands whose help shows each option as it is typed: a switch such as --help takes no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from beliefrag.cli.root_help import format_root_help

__all__ = ["CommandGroup", "RootGroup"]


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> Any:
        """Gives the options and arguments, of which switches are shown without a type."""
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        """Gives the options and arguments, of which switches are shown without a type."""
        return _without_types(super().get_params(ctx))


class RootGroup(_Group):
    """The whole program, whose help is the same text that `beliefrag --help` prints without importing the commands."""

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


def _without_types(parameters: Any) -> Any:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
