"""What a tuning leaves behind: the same bytes each time, settings that are accepted, and no name that breaks a file."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.calibration.tuning import ThresholdGrid, Tuning, TuningGoal, tune_thresholds
from beliefrag.calibration.tuning.recorded_decisions import MissingStep
from beliefrag.policy import Thresholds
from beliefrag.report.tuning_files import tuning_csv, write_tuning
from beliefrag.report.tuning_report import choice_sentences, thresholds_toml
from beliefrag.runs.partitions import Partition
from beliefrag.settings import load_settings
from tests.support.messages import mentions
from tests.support.recordings import Seen, ids, planted_artifact, recorded, trajectory

OWN = Thresholds(retrieval_value=0.05)
STATES = (Seen(0.02, 0.0), Seen(0.42, 0.3), Seen(0.82, 1.0, novelty=0.3), Seen(0.99, 0.4))


AFFORDABLE = TuningGoal(max_tokens=2_500)


def tuned(goal: TuningGoal | None = AFFORDABLE, dataset: str = "d") -> Tuning:
    names = [*ids(Partition.XSEL, 8), *ids(Partition.XHOLD, 8)]
    run = recorded((trajectory(name, *STATES, dataset=dataset) for name in names), OWN)
    return tune_thresholds(run, planted_artifact(), grid=ThresholdGrid(), goal=goal)


def test_a_second_tuning_writes_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_tuning(tuned(), tmp_path / name) for name in ("first", "second"))
    assert {path.name for path in first} == {"tune.json", "tune.csv", "tune.md", "tune.png", "tune.pdf"}
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_the_record_holds_the_frontier_the_choice_and_what_was_refused(tmp_path: Path) -> None:
    found = tuned()
    write_tuning(found, tmp_path)
    written = json.loads((tmp_path / "tune.json").read_text())
    assert written["chosen"]["thresholds"] == {
        "answer": 0.5, "retrieval_value": 0.05, "novelty": 0.2, "corrections": True,
    }  # fmt: skip
    assert written["chosen"]["quality"]["mean"] == written["held_out"]["chosen"]["quality"]["mean"] == 1.0
    assert written["held_out"]["difference"]["quality"]["mean"] == 0.0
    assert [point["quality"]["mean"] for point in written["frontier"]] == [pytest.approx(0.3), 1.0]
    assert written["points"] == len(found.points)
    assert written["refused"][0]["leave_the_record"] == [
        {"asking_for": MissingStep.REWRITING, "at": "REWRITE", "questions": 8}
    ]
    assert [move["told"] for move in written["moves"]][:2] == ["yes", "yes"]


def test_the_table_has_every_point_and_says_which_is_which() -> None:
    found = tuned()
    rows = list(csv.DictReader(tuning_csv(found).splitlines()[1:]))
    swept = [row for row in rows if row["part"] == "xsel"]
    assert len(swept) == len(found.points) + len(found.unknown_points) == len(ThresholdGrid().points(OWN))
    assert sum(row["frontier"] == "1" for row in swept) == len(found.frontier) == 2
    (chosen,) = [row for row in swept if row["chosen"] == "1"]
    assert (chosen["answer"], chosen["corrections"], chosen["quality"]) == ("0.5", "on", "1.0")
    refused = [row for row in swept if row["leave_the_record"] != "0"]
    assert len(refused) == len(found.unknown_points) > 0
    assert {(row["quality"], row["at"]) for row in refused} == {("", "REWRITE")}
    assert [row["part"] for row in rows if row["part"] == "xhold"] == ["xhold", "xhold"]


def test_the_settings_are_accepted_and_mean_the_chosen_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    wanted = Thresholds(0.35, 0.6, 0.25, 0.06, 0.0, False, 0.1, 0.9, 0.4, False, True, False)
    for thresholds in (wanted, replace(OWN, answer=0.05), replace(OWN, merge_rewriter=False)):
        file = tmp_path / "beliefrag.toml"
        file.write_text(thresholds_toml(thresholds, "mine\n[budget]\x07"), encoding="utf-8")
        assert load_settings(config=file).settings.policy_thresholds == thresholds


def test_the_name_of_a_dataset_is_only_text(tmp_path: Path) -> None:
    write_tuning(tuned(dataset="a $x_{$ | b <b>"), tmp_path)
    assert (tmp_path / "tune.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("goal", "parts"),
    [(None, ("--max-tokens", "--min-f1")), (TuningGoal(max_tokens=900), ("F1", "900 tokens", "1,100 tokens"))],
)
def test_that_nothing_was_chosen_is_said(goal: TuningGoal | None, parts: tuple[str, ...]) -> None:
    (sentence,) = choice_sentences(tuned(goal))
    assert mentions(sentence, *parts)
