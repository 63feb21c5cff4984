"""Extensions of another package, installed and used through the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from beliefrag.bench.datasets.formats import DATASET_FORMATS
from beliefrag.methods import METHODS
from beliefrag.models.providers import MODEL_PROVIDERS
from beliefrag.retrieval import RETRIEVERS
from beliefrag.studies import STUDIES
from beliefrag.verifiers import VERIFIERS
from tests.cli.shell import ANSWER, QUESTION, Ran, write_docs, write_script
from tests.support.extension import install_extension

Command = Callable[..., Ran]
REGISTRIES = (METHODS, RETRIEVERS, VERIFIERS, DATASET_FORMATS, STUDIES, MODEL_PROVIDERS)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget before and after a test what this process knows of packages."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_reported", set())
        vars(registry).pop("_offers", None)
    yield
    for registry in REGISTRIES:
        for name in vars(registry).pop("_offers", {}):
            registry._extensions.pop(name, None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "beliefrag_example"]:
        del sys.modules[name]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None, beliefrag: Command) -> Command:
    """Runs a command in this process, which has the package."""
    monkeypatch.syspath_prepend(str(install_extension(tmp_path / "site")))
    return beliefrag


def question(home: Path, *more: str) -> list[str | Path]:
    model = write_script(home, {**ANSWER, "repeat": True})
    return ["ask", QUESTION, "--docs", write_docs(home), "--model", model, "--json", *more]


def test_a_method_of_another_package_answers_with_its_options(home: Path, installed: Command) -> None:
    ran = installed(*question(home, "--method", "two_searches:word=designer"))
    assert ran.code == 0, ran.err
    assert ran.record["method"] == "two_searches"
    queries = [step["search"]["query"] for step in ran.record["steps"] if step["search"]]
    assert queries == [QUESTION, f"{QUESTION} designer"]


def test_a_retriever_of_another_package_searches_with_its_options(home: Path, installed: Command) -> None:
    ran = installed(*question(home, "--method", "static", "--set", "retriever=title_search:weight=3"))
    assert ran.code == 0, ran.err
    assert ran.record["made_with"]["retriever"] == "title search, weight 3"
    wrong = installed("ask", QUESTION, "--docs", home / "docs", "--set", "retriever=title_search:wait=3")
    assert wrong.code == 2
    assert "'wait'" in wrong.err and "weight: float = 2.0" in wrong.err


def test_a_dataset_format_of_another_package_is_listed_imported_and_run(home: Path, installed: Command) -> None:
    listed = installed("data", "list")
    assert "quiz_cards\tCC0\tno\texample.org/cards\tcards.jsonl\n" in listed.out
    cards = [{"number": number, "front": f"What is {number} times two?", "back": str(2 * number)} for number in (1, 2)]
    file = home / "cards.jsonl"
    file.write_text("".join(f"{json.dumps(card)}\n" for card in cards), encoding="utf-8")
    ran = installed("data", "import", "quiz_cards", file, "--out", home / "cards")
    assert ran.code == 0, ran.err
    assert "questions    2\n" in ran.out and "licence      CC0\n" in ran.out
    ran = installed(
        *("bench", "run", "--data", home / "cards", "--methods", "static", "--model", "echo:4"),
        *("--no-judge", "--yes", "--out", home / "run"),
    )
    assert ran.code == 0, ran.err
    assert "quiz_cards\tStatic\t2\t0.500\t" in installed("bench", "report", home / "run").out


def test_a_model_provider_of_another_package_is_listed_and_answers(home: Path, installed: Command) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(RETRIEVERS._extensions, "postgres", raising=False)
        patch.delitem(sys.modules, "beliefrag.retrieval.engines.postgres", raising=False)
        patch.setitem(sys.modules, "psycopg", None)
        listed = installed("config", "extensions")
    assert "\techo\t" in listed.out and listed.err == ""
    assert "\tpostgres\t-\tSearch on PostgreSQL needs a library" in listed.out
    ran = installed(
        *("ask", QUESTION, "--docs", write_docs(home), "--model", "echo:Colin Archer", "--method", "static", "--json")
    )
    assert ran.code == 0, ran.err
    assert ran.record["answer"] == "Colin Archer"
    assert ran.record["model"] == "echo:Colin Archer"
