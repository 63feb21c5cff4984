"""The benchmark of verifier forms: what its report says, and what its committed numbers rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.verifier_forms import judge_flags, report, rows_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def committed(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found


def state(support: float, f1: float, **forms: float) -> dict[str, Any]:
    counts = {"unhelpful": 1, "flagged_supporting": 0, "supporting": 2, "shown": 5}
    paid = {"tokens": 10, "seconds": 1.0, "repairs": {}}
    scores = {"gap": 0.0, "uncertainty": 0.0, "conflict": 0.0}
    given = {"probability": support, **forms}
    return {
        "complete": f1 > 0,
        "f1": f1,
        **{form: {"support": value, **scores, **counts, **paid} for form, value in given.items()},
    }


def test_the_committed_report_is_that_of_the_committed_states() -> None:
    assert report(rows_of(RESULTS / "verifier_states.jsonl")) == committed("verifier_forms.json")


def test_a_form_is_compared_only_on_states_that_the_baseline_has_too() -> None:
    rows = [state(0.9, 1.0, slots=0.1), state(0.1, 0.0, slots=0.9), state(0.2, 1.0), state(0.8, 0.0)]
    told = report(rows)["differences"]
    assert set(told) == {"slots less probability"}
    assert told["slots less probability"]["n"] == 2
    assert told["slots less probability"]["auc_correct"]["support"][0] == -1.0


def test_flags_are_judged_by_the_passages_that_support_something() -> None:
    states = [
        {"shown": 5, "supporting": 2, "unhelpful": 3, "flagged_supporting": 1},
        {"shown": 5, "supporting": 3, "unhelpful": 1, "flagged_supporting": 0},
    ]
    assert judge_flags(states) == {"precision": 0.75, "recall": 0.6, "supporting_lost": 0.2}
