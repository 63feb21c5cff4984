"""A report says which thresholds its methods ran with, and whose they are."""

from __future__ import annotations

import re
from dataclasses import asdict, fields
from pathlib import Path

from beliefrag import bench
from beliefrag.methods import METHODS
from beliefrag.policy import Thresholds
from tests.support.run_records import make_run_record


def test_a_report_says_of_every_method_with_thresholds_which_and_whose_they_are(tmp_path: Path) -> None:
    thresholds = {**asdict(Thresholds()), "answer": 0.6}
    options = {"crag": "correct=0.9"}
    record = make_run_record({"d": ["q"]}, tuple(METHODS), method_options=options, thresholds=thresholds)
    record.write(tmp_path)
    (tmp_path / "episodes.jsonl").write_text("", encoding="utf-8")
    bench.report(tmp_path, out=tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^\| thresholds of (.*?) \| (.*?) \|$", text, re.MULTILINE))
    compared = {
        each.name for each in METHODS.usable() if any(isinstance(f.default, float) for f in fields(each.options))
    }
    assert compared <= {name for name in METHODS if METHODS.title(name) in found}
    assert found["CRAG"].startswith("correct=0.9; defaults: the authors' values")
    assert found["FLARE"].startswith("the authors' values")
    assert "answer 0.6" in found["BeliefRAG"]
