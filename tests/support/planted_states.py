"""Runs with planted states: diagnostics drawn at random, answers right with a chance that is known."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from beliefrag.calibration.examples import StateCollection, read_collection
from beliefrag.policy import ScoreScale
from beliefrag.policy.belief import sigmoid
from beliefrag.prompts import Prompts
from beliefrag.record import QUESTION, Episode, Outcome, Search, Step
from beliefrag.retrieval import Bm25Index
from beliefrag.runs.record import DatasetRecord
from beliefrag.runs.run_files import episode_line
from beliefrag.runs.states import State
from beliefrag.types import Action, Attempt, Belief, Diagnostics, Question, Usage
from tests.support.run_records import make_run_record

Chance = Callable[[dict[str, float]], float]

WEIGHTS = Diagnostics(relevance=1.5, support=3.0, conflict=0.0, uncertainty=-2.0, gap=-1.0, novelty=0.5, cost=-0.5)
WEIGHT_OF: dict[str, float] = asdict(WEIGHTS)
INTERCEPT = -0.5
SCALE = ScoreScale(18.0, 6.0)
MODEL = "local:made-up:0123456789abcdef"


def logistic(x: dict[str, float]) -> float:
    """Return the planted answerability."""
    return sigmoid(INTERCEPT + sum(weight * x[name] for name, weight in WEIGHT_OF.items()))


def write_run(
    folder: Path,
    *,
    questions: int | Sequence[str],
    chance: Chance = logistic,
    rounds: int = 3,
    seed: int = 0,
    judged: bool = False,
    **changes: Any,
) -> Path:
    """Return a run of a survey: each question with one state without evidence, and one after each search.

    Args:
        folder: Where to.
        questions: How many, or their ids.
        chance: That the answer is right at a state with these diagnostics.
        rounds: Searches for each question.
        seed: Of the draws.
        judged: Whether a judge agrees with the planted outcome.
        changes: To the record of the run.
    """
    changes = {"retriever": Bm25Index.identity, **changes}
    draw = random.Random(seed)
    ids = tuple(f"q{number}" for number in range(questions)) if isinstance(questions, int) else tuple(questions)
    dataset = DatasetRecord(
        fingerprint="f" * 32, gold="g" * 32, passages=1000, question_ids=ids, score_scales={"bm25": SCALE}
    )
    usual = {
        "model": MODEL,
        "prompts": Prompts.load().hashes(),
        "judge": "the judge" if judged else None,
        "datasets": {"made-up": dataset},
    }
    make_run_record({}, ["survey"], **(usual | changes)).write(folder)
    lines = [episode_line(_episode(each, draw, chance, rounds, judged)) for each in ids]
    (folder / "episodes.jsonl").write_bytes(b"".join(lines))
    return folder


def planted(folder: Path, **how: Any) -> StateCollection:
    """Return the states of such a run."""
    return read_collection([write_run(folder, **how)])


def _episode(question_id: str, draw: random.Random, chance: Chance, rounds: int, judged: bool) -> Episode:
    steps = []
    right = 0.0
    for place in range(rounds + 1):
        x = {name: draw.random() for name in WEIGHT_OF} | {"conflict": 0.0}
        if place == 0:
            x = {"relevance": 0.0, "support": 0.0, "conflict": 0.0, "uncertainty": 1.0, "gap": 1.0, "novelty": 1.0}
            x["cost"] = 0.0
        right = float(draw.random() < (chance(x) if place else 0.1))
        belief = dict.fromkeys(("reliability", "conflict", "uncertainty", "gap", "cost"), 0.3)
        belief["sufficiency"] = min(max(0.35 if place == 0 else x["support"] * 0.6 + draw.random() * 0.3, 0.01), 0.99)
        scores = dict.fromkeys(("f1", "exact_match", "cover", *(("judge",) if judged else ())), right)
        steps.append(
            Step(
                number=place,
                action=Action.RETRIEVE if place < rounds else Action.STOP,
                reason="planted",
                legal=(Action.RETRIEVE, Action.STOP),
                diagnostics=Diagnostics(**x),
                belief=Belief(**belief),
                tokens=100 * place,
                attempt=Attempt("it", 9, scores),
                search=Search(
                    query=f"query {place}" if place else QUESTION,
                    added=tuple(f"p{number}" for number in range(5 * place, 5 * (place + 1))),
                ),
                evidence=tuple(f"p{number}" for number in range(5 * (place + 1))),
            )
        )
    return Episode(
        method="survey",
        dataset="made-up",
        question=Question("", question_id),
        outcome=Outcome.STOPPED,
        answer="it",
        metrics={
            **dict.fromkeys(("exact_match", "f1", "cover"), right),
            **dict.fromkeys(("evidence_recall", "answer_row_recall"), None),
            "judge": right if judged else None,
            "rounds": rounds,
            "actions": len(steps),
        },
        usage=Usage(calls=1, tokens_in=8, tokens_out=1, searches=rounds),
        steps=tuple(steps),
    )


def change(state: State, **changes: Any) -> State:
    """Return the same state with other values of its own or its step; `scores` are those of the answer tried there."""
    if "scores" in changes:
        attempt = state.step.attempt or Attempt("it", 0)
        changes["attempt"] = replace(attempt, scores=changes.pop("scores"))
    own = {name: changes.pop(name) for name in [each.name for each in fields(State)] if name in changes}
    return replace(state, **own, step=state.step.model_copy(update=changes))
