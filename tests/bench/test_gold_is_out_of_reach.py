"""Gold answers, supporting facts and labels cannot be reached from what a controller or a prompt is given."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import json
import threading
import types
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from beliefrag.bench.perturbation import Injector
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.bench.setup import DatasetSetup, RunSpec, set_up
from beliefrag.engine import loop
from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.engine.loop import Harness, hide_question_id
from beliefrag.record import Episode
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.runs.record import Injection
from beliefrag.settings import Settings
from beliefrag.types import Action, Decision, Question
from tests.support.bench_runs import write_script
from tests.support.study_data import write_snippets

SECRET = "Zyzzogeton the unguessable"
GOLD = Gold(
    (SECRET,), ("p-gold",), ((SECRET,),), fake_answer=f"fake {SECRET}", labels={"split": "dev", "hint": [SECRET]}
)
LABELLED = LabelledQuestion(Question("Who?", "q1"), GOLD)


# From the event loop, a thread or a frame introspection leads to everything in the process: there the walk ends.
MACHINERY = (type, types.ModuleType, types.FrameType, asyncio.AbstractEventLoop, asyncio.Future, threading.Thread)


def reachable_values(*roots: object) -> Iterator[object]:
    """Everything that attributes, items, elements, bound methods and closures lead to, private names included."""
    # What was seen is kept: the id of a value that is gone could be that of another one.
    seen: dict[int, object] = {}
    waiting = list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, MACHINERY):
            continue
        seen[id(value)] = value
        yield value
        if isinstance(value, str | bytes | int | float | None):
            continue
        if isinstance(value, Mapping):
            waiting += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset | deque):
            waiting += value
        waiting += routine_parts(value) if inspect.isroutine(value) else attributes(value)


def routine_parts(routine: object) -> Iterator[object]:
    """Yield what a function or a method was bound to and closes over."""
    yield getattr(routine, "__self__", None)
    yield getattr(routine, "__func__", None)
    yield getattr(routine, "__defaults__", None)
    yield getattr(routine, "__kwdefaults__", None)
    yield getattr(routine, "__dict__", None)
    for cell in getattr(routine, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a cell that is still empty
            yield cell.cell_contents


def attributes(value: object) -> Iterator[object]:
    for name in dir(value):
        if not (name.startswith("__") and name.endswith("__")):
            # Some properties of open files and databases cannot be read; a value that nobody gets hides nothing.
            with contextlib.suppress(Exception):
                yield getattr(value, name)


@dataclasses.dataclass
class Spy:
    """A method that keeps all that lies in reach of what its controller is given, at each step."""

    name: str = "spy"
    found: list[object] = dataclasses.field(default_factory=list)
    asked: set[Question] = dataclasses.field(default_factory=set)

    def begin(self) -> Controller:
        return self

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if view.passages:
            await calls.verify(view.question, view.verifier_window)
        self.found += reachable_values(view, calls)
        self.asked.add(view.question)
        return Measurement()

    def decide(self, view: View, measurement: Measurement) -> Decision:
        action = Action.ANSWER if view.queries else Action.RETRIEVE
        return Decision(action, "spy", legal=view.legal)


@pytest.fixture
def injected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[DatasetSetup, LabelledQuestion]]:
    """A run with noise and lies on questions whose gold holds what no passage says."""
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    folder = write_snippets(tmp_path)
    lines = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    for line in lines:
        line["answers"].append(SECRET)
        line["hint"] = SECRET
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = Settings(model=write_script(tmp_path), verifier="structured")
    wanted = RunSpec((folder,), ("static",), splits=("fact",), injection=Injection(0.4, 0.4), judge=False)
    setup = set_up(settings, wanted)
    yield setup.datasets["rgb"], next(iter(setup.datasets["rgb"].questions.values()))
    asyncio.run(setup.aclose())


async def test_nothing_in_reach_of_a_controller_in_an_injected_episode_holds_gold(
    injected: tuple[DatasetSetup, LabelledQuestion],
) -> None:
    course, labelled = injected
    spy, harness = Spy(), course.harness_for(next(iter(course.methods)), labelled)
    played = [each async for each in loop.run(labelled.question, spy, harness)][-1]
    assert isinstance(harness.retriever, InjectedRetriever)
    assert harness.retriever.noise_ids and harness.retriever.false_ids, "something was injected"
    assert isinstance(played, Episode) and played.outcome == "answered"
    assert [value for value in spy.found if isinstance(value, CallRecorder)]
    hidden = Gold | LabelledQuestion | Dataset | Card | Harness | Injector | InjectedRetriever | DatasetSetup
    assert not [value for value in spy.found if isinstance(value, hidden)]
    assert not [value for value in spy.found if isinstance(value, str) and SECRET in value]


async def test_the_id_that_a_controller_gets_tells_nothing_and_is_the_same_everywhere(
    injected: tuple[DatasetSetup, LabelledQuestion],
) -> None:
    course, labelled = injected
    one, other = Spy(), Spy()
    for spy in (one, other):
        played = await loop.play(labelled.question, spy, course.harness_for(next(iter(course.methods)), labelled))
        # The record still names the question.
        assert played.question == labelled.question
    assert one.asked == other.asked == {hide_question_id(labelled.question)}
    assert labelled.id.startswith("fact-")
    assert all("fact" not in question.id and question.text == labelled.question.text for question in one.asked)
    assert len({hide_question_id(each.question).id for each in course.questions.values()}) == len(course.questions)


def test_the_walk_goes_through_bound_methods_and_closures(injected: tuple[DatasetSetup, LabelledQuestion]) -> None:
    course, labelled = injected
    search = course.harness_for(next(iter(course.methods)), labelled).retriever.search
    assert labelled.gold in list(reachable_values(search))
    assert labelled.gold in list(reachable_values(lambda: search))


def test_the_search_for_gold_would_find_it() -> None:
    values = [value for value in reachable_values(LABELLED) if isinstance(value, Gold | str)]
    assert GOLD in values
    assert [value for value in values if isinstance(value, str) and SECRET in value]


def test_gold_cannot_be_tied_to_a_question() -> None:
    with pytest.raises((AttributeError, TypeError)):
        object.__setattr__(Question("Who?", "q"), "gold", GOLD)


def test_a_question_that_carries_gold_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Smuggler(Question):
        gold: Gold = GOLD

    with pytest.raises(TypeError, match="plain Question, not Smuggler"):
        LabelledQuestion(Smuggler("Who?", "q"), GOLD)


def test_labels_cannot_be_changed_behind_a_back() -> None:
    labels = {"split": "dev"}
    gold = Gold(("x",), labels=labels)
    labels["split"] = "train"
    assert gold.labels["split"] == "dev"
    with pytest.raises(TypeError):
        gold.labels["split"] = "train"  # type: ignore[index]
