"""Recordings with planted states and episodes for studies, and a scripted model whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from beliefrag.record import EpisodeSummary, Failure, Outcome, Step
from beliefrag.report.table import CellValue
from beliefrag.runs.states import State, Trajectory
from beliefrag.studies.study import Recording, StudyResult
from beliefrag.types import Action, Attempt, Belief, Diagnostics, Question, Usage
from tests.support.bench_runs import PLACES, VERDICT, write_dataset, write_script
from tests.support.run_records import make_run_record

UNSURE = {"unhelpful_doc_ids": [], "support": 0.0, "conflict": 0.0, "gap": 1.0, "uncertainty": 1.0}
_BELIEF = {"sufficiency": 0.5, "reliability": 0.5, "conflict": 0.1, "uncertainty": 0.5, "gap": 0.5, "cost": 0.2}
_DIAGNOSTICS = dict.fromkeys(("relevance", "support", "conflict", "uncertainty", "gap", "novelty", "cost"), 0.5)


def state(
    *,
    answerability: float | None = 0.4,
    right: bool | None = None,
    rounds: int = 1,
    retained: int = 5,
    flagged: int = 0,
    retrieval_value: float | None = 0.05,
    novelty: float = 0.5,
    action: Action = Action.STOP,
    branch: str = "stop",
    step: int = 1,
    **belief: float,
) -> State:
    """Return one visited state; what is not given is ordinary."""
    measured = Step(
        number=step,
        action=action,
        reason=branch,
        legal=(Action.STOP,),
        diagnostics=Diagnostics(**{**_DIAGNOSTICS, "novelty": novelty}),
        belief=Belief(**{**_BELIEF, **belief}),
        tokens=100,
        attempt=None if right is None else Attempt("it", 0, {"f1": float(right)}),
    )
    return State(
        step=measured,
        rounds=rounds,
        retained=retained,
        flagged=flagged,
        actions=(),
        correction_fits=False,
        nothing_missing=False,
        answerability=answerability,
        retrieval_value=retrieval_value,
    )


def trajectory(question_id: str, *states: State, dataset: str = "d", method: str = "beliefrag") -> Trajectory:
    """Return the states of one episode."""
    return Trajectory(dataset, method, question_id, states)


def episode(
    method: str, question_id: str, f1: float, tokens: int, *, dataset: str = "d", failed: bool = False
) -> EpisodeSummary:
    """Return one episode with its score and its cost."""
    return EpisodeSummary(
        dataset=dataset,
        method=method,
        question=Question("", question_id),
        outcome=Outcome.FAILED if failed else Outcome.ANSWERED,
        metrics={} if failed else {"f1": f1},
        usage=Usage(calls=1, tokens_in=tokens),
        error=Failure(cause="ModelError") if failed else None,
    )


def recording(
    trajectories: Iterable[Trajectory] = (), episodes: Iterable[EpisodeSummary] = (), **changes: Any
) -> Recording:
    """Return the recording of a run with these states and episodes."""
    own, played = tuple(trajectories), tuple(episodes)
    if not played:
        played = tuple(episode(t.method, t.question_id, 0.0, 100, dataset=t.dataset) for t in own)
    asked: dict[str, list[str]] = {}
    for each in played:
        asked.setdefault(each.key.dataset, []).append(each.key.question_id)
    return Recording(
        make_run_record(asked, {e.key.method for e in played}, **{"verifier": "probability", **changes}), played, own
    )


def write_study_data(folder: Path, questions: int = 24) -> tuple[list[Path], str]:
    """Return two datasets, and a scripted model that is sure of every other question and mostly right there.

    Of the questions that it is sure of it knows all but one in three, of the others none but one in four.
    """
    names = ("north", "south")
    data = [write_dataset(folder, name, questions) for name in names]
    lines: list[dict[str, Any]] = []
    for name in names:
        for k in range(questions):
            sure = k % 2 == 0
            right = k % 3 != 0 if sure else k % 4 == 1
            asked = f"builder of ship {name}{k} born"
            reply = PLACES[k % len(PLACES)] if right else "Oslo"
            lines.append({"purpose": "answer", "match": asked, "reply": reply, "repeat": True})
            verdict = VERDICT if sure else UNSURE
            lines.append({"purpose": "verifier", "match": asked, "reply": verdict, "repeat": True})
    return data, write_script(folder, *lines)


def rows_of(result: StudyResult, table: str, *keys: str) -> dict[Any, dict[str, Any]]:
    """Return the rows of a table of a study, by the values of one or several columns."""
    return rows_by(next(each.records for each in result.tables if each.name == table), *keys)


def rows_by(records: Iterable[Mapping[str, CellValue]], *keys: str) -> dict[Any, dict[str, Any]]:
    """Return rows by the values of one or several columns."""
    return {row[keys[0]] if len(keys) == 1 else tuple(row[key] for key in keys): dict(row) for row in records}


def numbers_of(folder: Path) -> dict[str, Any]:
    """Return what a study's file of numbers holds."""
    found = json.loads((folder / "numbers.json").read_text())
    assert isinstance(found, dict)
    return found
