"""Gold answers, supporting facts and labels cannot be reached from what a controller or a prompt is given."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beliefrag
from beliefrag.bench.card import Card
from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion
from beliefrag.controller import Controller, Measurement, Method, View
from beliefrag.desk import Desk
from beliefrag.loop import Harness
from beliefrag.method.budget import Spent
from beliefrag.prompts import Prompts
from beliefrag.types import Action, Budget, Passage, Question

SECRET = "Zyzzogeton the unguessable"
GOLD = Gold(
    (SECRET,), ("p-gold",), ((SECRET,),), fake_answer=f"fake {SECRET}", labels={"split": "dev", "hint": [SECRET]}
)
LABELLED = LabelledQuestion(Question("Who?", "q1"), GOLD)


def view_of(question: Question) -> View:
    passages = (Passage("p1", "A title", "A text"),)
    return View(
        question=question,
        step=0,
        passages=passages,
        scores=(1.0,),
        verifier_window=passages,
        answer_window=passages,
        queries=("Who?",),
        rewritten=None,
        novelty=1.0,
        actions=(),
        budget=Budget(),
        spent=Spent(0, 0, 0),
        legal=tuple(Action),
        correction_fits=True,
        nothing_missing=False,
    )


def reachable_values(root: object) -> Iterator[object]:
    """Everything that attributes, items and elements lead to, private names included."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type) or inspect.isroutine(value) or inspect.ismodule(value):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, str | bytes | int | float | None):
            continue
        if isinstance(value, dict):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        for name in dir(value):
            if not (name.startswith("__") and name.endswith("__")):
                waiting.append(getattr(value, name))


def reachable_types(*roots: Any) -> set[type]:
    """Every class that fields, parameters and results of these classes mention, and what those mention in turn."""
    seen: set[type] = set()
    waiting: list[Any] = list(roots)
    while waiting:
        found = waiting.pop()
        waiting += typing.get_args(found)
        origin = typing.get_origin(found) or found
        if not isinstance(origin, type) or origin in seen:
            continue
        seen.add(origin)
        if not origin.__module__.startswith("beliefrag"):
            continue
        waiting += origin.__subclasses__()
        # A field may hold any subclass of what it is declared as.
        hints = typing.get_type_hints(origin) if dataclasses.is_dataclass(origin) else {}
        waiting += hints.values()
        for member in vars(origin).values():
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function) and function.__module__.startswith("beliefrag"):
                try:
                    waiting += typing.get_type_hints(function).values()
                except NameError:
                    # Names that exist for the type checker alone are covered by the import test below.
                    waiting += []
    return seen


def test_no_value_in_reach_of_a_controller_holds_gold() -> None:
    values = list(reachable_values(view_of(LABELLED.question)))
    assert len(values) > 20
    assert not [value for value in values if isinstance(value, Gold | LabelledQuestion | Dataset | Card)]
    assert not [value for value in values if isinstance(value, str) and (SECRET in value or value == "p-gold")]


def test_the_search_for_gold_would_find_it() -> None:
    values = list(reachable_values(LABELLED))
    assert GOLD in values
    assert [value for value in values if isinstance(value, str) and SECRET in value]
    assert Gold in reachable_types(LabelledQuestion)


def test_no_type_that_a_controller_or_a_prompt_is_given_mentions_gold() -> None:
    types = reachable_types(View, Question, Desk, Measurement, Controller, Method, Harness, Prompts)
    assert {Question, Passage, Budget, Desk} <= types
    assert not types & {Gold, LabelledQuestion, Dataset, Card}
    assert not [found for found in types if found.__module__.startswith("beliefrag.bench")]


def test_gold_cannot_be_tied_to_a_question() -> None:
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(Question("Who?", "q"), "gold", GOLD)
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(view_of(LABELLED.question), "gold", GOLD)


def test_a_question_that_carries_gold_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Smuggler(Question):
        gold: Gold = GOLD

    with pytest.raises(TypeError, match="plain Question, not Smuggler"):
        LabelledQuestion(Smuggler("Who?", "q"), GOLD)


def test_what_is_handed_on_is_the_id_and_the_text() -> None:
    assert dataclasses.asdict(LABELLED.question) == {"text": "Who?", "id": "q1"}
    assert SECRET not in repr(LABELLED.question)


def test_nothing_that_runs_an_episode_imports_the_benchmarks() -> None:
    root = Path(beliefrag.__file__).parent
    rooms = ["method", "methods", "models", "prompts", "retrieval", "verifiers"]
    files = [file for room in rooms for file in (root / room).rglob("*.py")]
    files += [root / name for name in ("types.py", "controller.py", "desk.py", "loop.py", "replies.py", "outcome.py")]
    assert len(files) > 30
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.startswith("beliefrag.bench")], file


def test_labels_cannot_be_changed_behind_a_back() -> None:
    labels = {"split": "dev"}
    gold = Gold(("x",), labels=labels)
    labels["split"] = "train"
    assert gold.labels["split"] == "dev"
    with pytest.raises(TypeError):
        gold.labels["split"] = "train"  # type: ignore[index]
