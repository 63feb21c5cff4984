"""Starting the program: quick, and helpful to a newcomer."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer.main
from typer.core import TyperGroup

from beliefrag import __version__
from beliefrag.cli.app import app
from beliefrag.cli.root_help import COMMANDS as SUMMARIES
from beliefrag.settings import DEFAULT_MODEL
from tests.cli.shell import Ran, in_shell

Command = Callable[..., Ran]

COMMANDS = ["ask", "demo", "index", "view", "doctor", "config show", "prompt list", "prompt show"]
COMMANDS += ["calibrate collect", "calibrate fit", "calibrate show", "calibrate compare", "calibrate risk"]
COMMANDS += ["calibrate check", "study", "serve http", "serve mcp"]


def test_importing_the_command_line_loads_nothing_heavy() -> None:
    code = (
        "import sys, beliefrag.cli;"
        "heavy = {'openai', 'tantivy', 'xllamacpp', 'numpy', 'pydantic', 'httpx2', 'lxml', 'genai_prices',"
        "'scipy', 'huggingface_hub', 'filelock',"
        "'sklearn', 'matplotlib', 'fastapi', 'uvicorn', 'prometheus_client', 'opentelemetry'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_version_can_be_asked_for(beliefrag: Command) -> None:
    assert beliefrag("--version") == Ran(0, f"beliefrag {__version__}\n", "")


def test_the_module_is_the_command() -> None:
    assert in_shell("--version") == Ran(0, f"beliefrag {__version__}\n", "")


def test_no_command_shows_the_help_and_is_wrong_usage(beliefrag: Command) -> None:
    ran = beliefrag()
    assert ran.code == 2
    assert ran.err == ""
    for command in ("ask", "demo", "index", "model", "doctor", "config", "prompt"):
        assert re.search(rf"\b{command}\b", ran.out)


def test_the_help_has_every_command_with_the_first_words_of_its_own_help(beliefrag: Command) -> None:
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    first = {name: " ".join((each.help or "").split("\n\n")[0].split()) for name, each in root.commands.items()}
    assert first == SUMMARIES
    assert set(re.findall(r"^  ([a-z]+)  ", beliefrag("--help").out, re.MULTILINE)) == set(SUMMARIES)


def test_the_help_is_the_same_text_in_every_way_to_ask_for_it(beliefrag: Command) -> None:
    shown = beliefrag("--help")
    assert (shown.code, shown.err) == (0, "")
    for words in ((), ("-h",), ("--debug", "--help")):
        assert beliefrag(*words).out.strip() == shown.out.strip(), words


@pytest.mark.parametrize("columns", [30, 80, 300])
def test_the_help_is_as_wide_as_the_terminal_but_never_hard_to_read(
    beliefrag: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    widest = max(map(len, beliefrag("--help").out.splitlines()[1:]))
    assert widest <= max(40, min(100, columns))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(beliefrag: Command, command: str) -> None:
    ran = beliefrag(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(rf"Example:\s+beliefrag {command}", ran.out)
    assert ran.out == beliefrag(*command.split(), "-h").out


def test_the_help_names_the_model_that_is_really_the_default(beliefrag: Command) -> None:
    words = re.sub(r"[\s│]+", " ", beliefrag("ask", "--help").out)
    assert f"By default {DEFAULT_MODEL}." in words
