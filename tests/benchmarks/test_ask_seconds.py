"""The seconds of lean beside those of the paper's controller: both are asked the same questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ask_seconds import METHODS, measure
from tests.support.bench_runs import write_script


def test_both_methods_are_asked_each_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    found = measure(2, model=write_script(tmp_path), borrow="published", verifier="structured")
    assert found["questions"] == 2
    for name in METHODS:
        assert len(found["seconds"][name]) == len(found["tokens"][name]) == 2
        assert all(tokens > 0 for tokens in found["tokens"][name])
    assert sum(found["tokens"]["lean"]) < sum(found["tokens"]["beliefrag"])
