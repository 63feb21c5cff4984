"""Starting the program: quick, and helpful to a newcomer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import typer.core
import typer.main

from beliefrag import __version__
from beliefrag.cli.app import app
from tests.cli.shell import Ran, in_shell

Command = Callable[..., Ran]


def _commands(name: str, part: object) -> Iterator[tuple[str, typer.core.TyperCommand]]:
    if isinstance(part, typer.core.TyperGroup):
        for word, each in part.commands.items():
            yield from _commands(f"{name} {word}".strip(), each)
    else:
        assert isinstance(part, typer.core.TyperCommand)
        yield name, part


COMMANDS = dict(_commands("", typer.main.get_command(app)))


def test_the_module_is_the_command() -> None:
    assert in_shell("--version") == Ran(0, f"beliefrag {__version__}\n", "")


def test_no_command_shows_the_help_and_is_wrong_usage(beliefrag: Command) -> None:
    ran = beliefrag()
    assert (ran.code, ran.err) == (2, "")
    for name in COMMANDS:
        assert re.search(rf"\b{name.split()[0]}\b", ran.out)


def test_there_are_at_most_30_commands_with_at_most_15_visible_options() -> None:
    assert len(COMMANDS) <= 30
    for name, command in COMMANDS.items():
        options = [each for each in command.params if each.param_type_name == "option"]
        shown = [each.opts[0] for each in options if not getattr(each, "hidden", False)]
        assert len(shown) <= 15, (name, shown)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(beliefrag: Command, name: str) -> None:
    ran = beliefrag(*name.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(rf"Example:\s+beliefrag {name}", ran.out)
    assert ran.out == beliefrag(*name.split(), "-h").out
