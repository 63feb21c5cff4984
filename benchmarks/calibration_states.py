"""Keeps the states that a calibration was fitted on, without texts, so that anybody can make the fit again.

    python -m benchmarks.calibration_states write states_h states_m states_w held --file FILE.jsonl.gz
    python -m benchmarks.calibration_states refit FILE.jsonl.gz
    python -m benchmarks.calibration_states check NAME RUN...

`write` takes the folders that `beliefrag calibrate collect` made; a line is the course of one question. `refit` prints
answerability and retrieval value as they follow from the states of xfit, and how good both are on those of xhold.
`check` measures a calibration on the states of runs, on questions that it was neither fitted nor chosen on. No model is
asked.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from beliefrag.calibration.artifact import AnswerabilityFit, Artifact, Quality, load_artifact
from beliefrag.calibration.examples import Examples, label_searches, label_states, read_collection
from beliefrag.calibration.fitting import fit_all_kinds, fit_value
from beliefrag.calibration.quality import measure_quality, predict_answerability, predict_retrieval_value
from beliefrag.calibration.replay import consults_retrieval_value
from beliefrag.policy import FittedValue
from beliefrag.record import Step
from beliefrag.runs.partitions import Partition
from beliefrag.runs.states import State, Trajectory
from beliefrag.types import Action, Attempt, Belief, Diagnostics

__all__ = ["Refit", "check", "read_states", "refit", "write_states"]

_COUNTED = (
    "rounds",
    "retained",
    "flagged",
    "actions",
    "correction_fits",
    "nothing_missing",
    "answerability",
    "retrieval_value",
)


@dataclass(frozen=True, slots=True)
class Refit:
    """What follows from the states: both fits, and how good they are on held-out questions."""

    fitted_questions: frozenset[str]
    answerability: AnswerabilityFit
    answerability_quality: Quality | None
    """None where no state is of a held-out question."""
    retrieval_value: FittedValue
    retrieval_value_quality: Quality | None
    """None where no search is of a held-out question."""


def write_states(trajectories: Iterable[Trajectory], file: Path) -> int:
    """Write the states without texts, and return the number of their questions. The same states give the same bytes."""
    lines = [
        json.dumps(
            {
                "dataset": each.dataset,
                "method": each.method,
                "question": each.question_id,
                "states": [_to_record(state) for state in each.states],
            }
        )
        for each in sorted(trajectories, key=lambda each: (each.dataset, each.question_id))
    ]
    file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    return len(lines)


def read_states(file: Path) -> Iterator[Trajectory]:
    """Yield the course of each question as it was written."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            found = json.loads(line)
            states = tuple(_from_record(record) for record in found["states"])
            yield Trajectory(found["dataset"], found["method"], found["question"], states)


def refit(trajectories: Sequence[Trajectory]) -> Refit:
    """Fit answerability, of the paper's kind, and retrieval value to the states of xfit; measure both on xhold."""
    states, *_ = label_states(trajectories, "f1")
    own, unseen = (states.select_part(part) for part in (Partition.XFIT, Partition.XHOLD))
    answerability = fit_all_kinds(own).kinds["logistic"]
    predicted = predict_answerability(unseen, answerability)
    is_consulted = partial(consults_retrieval_value, answerability=answerability)
    searches = label_searches(trajectories, "f1", is_consulted)
    own_searches, unseen_searches = (searches.select_part(part) for part in (Partition.XFIT, Partition.XHOLD))
    value = fit_value(own_searches)[0]
    values = predict_retrieval_value(unseen_searches, value)
    return Refit(
        frozenset(own.question_ids),
        answerability,
        measure_quality(predicted, unseen, own.rate) if len(unseen) else None,
        value,
        measure_quality(values, unseen_searches, own_searches.rate) if len(unseen_searches) else None,
    )


def check(artifact: Artifact, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    """Measure a calibration on states of questions that it has not seen, over all and for each dataset."""
    states, *_ = label_states(trajectories, "f1")
    seen = set(artifact.find_seen(states.question_ids))
    unseen = Examples(each for each in states.each if each.question_id not in seen)
    base_rate = artifact.fit.answerability.base_rate if artifact.fit else unseen.rate

    def measure(some: Examples) -> dict[str, Any]:
        predicted = predict_answerability(some, artifact.answerability)
        return measure_quality(predicted, some, base_rate).model_dump()

    names = sorted({each.dataset for each in unseen.each})
    return {
        "seen": len(seen),
        "base_rate": base_rate,
        "overall": measure(unseen),
        "datasets": {name: measure(Examples(e for e in unseen.each if e.dataset == name)) for name in names},
    }


def _to_record(state: State) -> dict[str, Any]:
    step, attempt = state.step, state.step.attempt
    return {
        "step": step.number,
        **{name: asdict(getattr(step, name)) for name in ("diagnostics", "belief")},
        **{name: getattr(state, name) for name in _COUNTED},
        **{name: getattr(step, name) for name in ("legal", "tokens", "action", "reason")},
        "answer_tokens": attempt.tokens if attempt else 0,
        "scores": dict(state.scores),
    }


def _from_record(record: dict[str, Any]) -> State:
    scores = record["scores"]
    step = Step(
        number=record["step"],
        action=Action(record["action"]),
        reason=record["reason" if "reason" in record else "branch"],
        legal=tuple(map(Action, record["legal"])),
        diagnostics=Diagnostics(**record["diagnostics"]),
        belief=Belief(**record["belief"]),
        tokens=record["tokens"],
        attempt=Attempt("", record["answer_tokens"], scores) if scores else None,
    )
    counted = {name: record[name] for name in _COUNTED if name != "actions"}
    return State(step, actions=tuple(map(Action, record["actions"])), **counted)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("runs", type=Path, nargs="+")
    writing.add_argument("--file", type=Path, required=True)
    refitting = commands.add_parser("refit")
    refitting.add_argument("file", type=Path)
    checking = commands.add_parser("check")
    checking.add_argument("calibration")
    checking.add_argument("runs", type=Path, nargs="+")
    given = parser.parse_args()
    if given.command == "write":
        print(f"{write_states(read_collection(given.runs).trajectories, given.file)} questions in {given.file}")
    elif given.command == "check":
        states = read_collection(given.runs).trajectories
        print(json.dumps(check(load_artifact(given.calibration), states), indent=1))
    else:
        found = refit([*read_states(given.file)])
        for fitted, quality in (
            (found.answerability, found.answerability_quality),
            (found.retrieval_value, found.retrieval_value_quality),
        ):
            print(json.dumps(asdict(fitted)))
            print(quality.model_dump_json() if quality else "no held-out question tells how good it is")


if __name__ == "__main__":
    main()
