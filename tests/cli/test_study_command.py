"""`beliefrag study`: makes what it needs, takes what there is, gives the same numbers again, and refuses clearly."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.studies import STUDIES, belief
from tests.cli.shell import Ran
from tests.support.bench_runs import BORROWED, records
from tests.support.studied import numbers_of, rows_by, write_study_data

Command = Callable[..., Ran]
RECORDED = ("thresholds", "belief", "frontier")
"""The studies that two datasets of short answers are enough for."""


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    # The interval of the joint AUC takes most of the time, and no test here is about it.
    monkeypatch.setattr(belief, "RESAMPLES", 20)


def line_of(home: Path, name: str, *more: str, out: str = "studies") -> list[str]:
    """Return a study on both made-up datasets with the scripted model."""
    if not (home / "north").exists():
        write_study_data(home)
    model = f"scripted:{home / 'bench.jsonl'}"
    return ["study", name, "--data", "north", "south", "--model", model, *BORROWED, "--out", out, *more]


def test_all_studies_that_the_datasets_are_for_run_within_a_minute_and_again_with_the_same_numbers(
    beliefrag: Command, home: Path
) -> None:
    began = time.process_time()
    ran = beliefrag(*line_of(home, "all"))
    assert ran.code == 0, ran.err
    assert time.process_time() - began < 60
    index = (home / "studies" / "index.md").read_text()
    assert all(STUDIES.title(name) in index for name in STUDIES)
    for name in RECORDED:
        assert {path.suffix for path in (home / "studies" / name).iterdir()} >= {".json", ".md", ".html"}
    assert [name for name in STUDIES if f"{name} is left out: " in ran.err] == ["mechanism", "robustness", "holobench"]
    assert all((home / "studies" / name / "figure.png").exists() for name in RECORDED)
    _as_planted(home / "studies")
    before = {path: path.read_bytes() for path in (home / "studies").rglob("*") if path.is_file()}
    again = beliefrag(*line_of(home, "all"))
    assert again.code == 0
    assert "episodes finished" not in again.err, "something was played a second time"
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.usefixtures("without_pictures")
def test_runs_are_shared_and_grow(beliefrag: Command, home: Path) -> None:
    beliefrag(*line_of(home, "thresholds"))
    assert {r.method for r in records(home / "studies" / "runs" / "comparison")} == {"beliefrag"}
    ran = beliefrag(*line_of(home, "frontier:methods=static"))
    assert "done before: 48" in ran.err
    assert {r.method for r in records(home / "studies" / "runs" / "comparison")} == {"beliefrag", "static"}
    assert (home / "studies" / "index.html").read_text().count("<h2>") == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("study", "nothing", "--data", "north", "--out", "o"), "study .*'nothing'.*Known: "),
        (("study", "belief", "--out", "o"), "one source"),
        (("study", "belief:colour=red", "--data", "north", "--out", "o"), "no option 'colour'"),
        (("study", "frontier:of=best", "--data", "north", "--out", "o"), "method .*'best'.*Known: "),
    ],
)
def test_what_cannot_be_studied_is_refused(beliefrag: Command, home: Path, line: tuple[str, ...], words: str) -> None:
    write_study_data(home)
    ran = beliefrag(*line)
    assert ran.code == 2
    assert re.search(words, ran.err)
    assert not (home / "o").exists()


def _as_planted(studies: Path) -> None:
    """The scripted model's answers come out as they were planted."""
    gates = rows_by(numbers_of(studies / "thresholds")["tables"]["gates"], "dataset", "gate")
    assert gates["all", "answer"]["holds"]["value"] == 0.5, "it is sure of every other question"
    auc = rows_by(numbers_of(studies / "belief")["tables"]["auc"], "signal")
    # Sure and right 8, sure and wrong 4, unsure and right 6, unsure and wrong 6, in each dataset: with the ties,
    # (8 x 6 + half of 8 x 4 + half of 6 x 6) of 14 x 10 pairs.
    assert auc["sufficiency"]["AUC"]["value"] == pytest.approx((48 + 16 + 18) / 140, abs=0.02)
    assert "answerability" not in auc, "a survey has none"
