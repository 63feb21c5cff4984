"""Records of made-up runs, and the setups of their methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from beliefrag.methods import find_profile
from beliefrag.policy import Thresholds
from beliefrag.runs.record import DatasetRecord, MethodRecord, RunRecord
from beliefrag.types import Budget


def make_setups(methods: Iterable[str], changes: dict[str, Any]) -> dict[str, MethodRecord]:
    """Make the same setup for each method; what `changes` says about setups is taken out of it."""
    names = ("verifier", "retriever", "pack", "thresholds", "calibration")
    own = {name: changes.pop(name) for name in names if name in changes}
    made = {}
    for method in methods:
        profile = find_profile(method)
        usual = asdict(profile.apply_to(Thresholds()) if profile else Thresholds())
        setup = {"verifier": "structured", "retriever": "bm25", "thresholds": usual} | own
        made[method] = MethodRecord.model_validate(setup)
    return made


def make_run_record(
    asked: Mapping[str, Iterable[str]], methods: Iterable[str] = ("beliefrag",), **changes: Any
) -> RunRecord:
    """Make the record of a run that asked these questions; what `changes` says about setups holds for each method."""
    methods = tuple(methods)
    record = {
        "setups": make_setups(methods, changes),
        "made": "2026-01-01T00:00:00+00:00",
        "versions": {"beliefrag": "0"},
        "model": "scripted:planted",
        "prompts": {},
        "budget": asdict(Budget()),
        "judge": None,
        "seed": 0,
        "methods": methods,
        "datasets": {
            name: DatasetRecord(fingerprint="f", gold="g", passages=9, question_ids=tuple(dict.fromkeys(ids)))
            for name, ids in asked.items()
        },
        "settings": {},
    }
    return RunRecord.model_validate(record | changes)
