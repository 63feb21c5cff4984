"""The benchmark of conflict: which pairs it makes, and what its committed numbers rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import verifier_conflict

RESULT = Path(__file__).parents[2] / "docs" / "results" / "verifier_conflict.json"


def test_a_differing_pair_is_a_passage_and_a_copy_with_the_answer_of_another_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files: dict[str, list[dict[str, Any]]] = {
        "corpus": [
            {"id": "a", "title": "Dusk", "text": "Per Lund painted it."},
            {"id": "b", "title": "Per Lund", "text": "He was born in Oslo (not Osloer)."},
        ],
        "questions": [
            {"id": "1", "split": "train", "question": "Where?", "supporting": ["a", "b"], "answers": ["Oslo"]},
            {"id": "2", "split": "train", "question": "When?", "supporting": ["a", "b"], "answers": ["1901"]},
            {"id": "3", "split": "dev", "question": "Who?", "supporting": ["a", "b"], "answers": ["Per Lund"]},
        ],
    }
    monkeypatch.setattr(verifier_conflict, "load", files.__getitem__)
    found = [each for seed in range(4) for each in verifier_conflict.pairs_of_hotpotqa(seed)]
    holder = "Per Lund: He was born in Oslo (not Osloer)."
    assert {each.id for each in found} == {"1"}
    assert found[0].agree == ("Dusk: Per Lund painted it.", holder)
    assert found[0].differ == (holder, "Per Lund: He was born in 1901 (not Osloer).")


def test_every_committed_auc_is_that_of_the_committed_pairs() -> None:
    told = json.loads(RESULT.read_text(encoding="utf-8"))
    for source in ("rgb", "hotpotqa"):
        assert told[source]["n"] == len(told[source]["pairs"]) == 40
        for reading in verifier_conflict.READINGS:
            value = told[source]["auc"][reading][0]
            assert value == pytest.approx(verifier_conflict.auc(told[source]["pairs"], reading=reading), abs=5e-4)
