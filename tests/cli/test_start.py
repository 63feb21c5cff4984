"""Starting the program: quick, and helpful to a newcomer."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from beliefrag import __version__
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


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(beliefrag: Command, command: str) -> None:
    ran = beliefrag(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(rf"Example:\s+beliefrag {command}", ran.out)
    assert ran.out == beliefrag(*command.split(), "-h").out


def test_the_help_names_the_model_that_is_really_the_default(beliefrag: Command) -> None:
    words = re.sub(r"[\s│]+", " ", beliefrag("ask", "--help").out)
    assert f"By default {DEFAULT_MODEL}." in words
