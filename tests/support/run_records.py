"""Setups of methods for records of made-up runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from beliefrag.methods import find_profile
from beliefrag.policy import Thresholds
from beliefrag.runs.record import MethodRecord


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
