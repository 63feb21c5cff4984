"""`beliefrag reproduce`: the whole of it against a scripted model, and the same after five kills."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.report.paper_comparison import shade_of
from beliefrag.report.published import published_tables
from beliefrag.runs.record import RunRecord
from beliefrag.settings import Settings
from beliefrag.studies import STUDIES, belief
from tests.cli.conftest import beliefrag, home
from tests.cli.shell import Ran
from tests.support.messages import mentions
from tests.support.paper_data import FIT, QUESTIONS, SELECT, SETS, write_paper_data

__all__ = ["beliefrag", "home"]
Command = Callable[..., Ran]
KILLS = 5


def line_of(home: Path, *more: str, out: str = "paper") -> list[str]:
    """Return the command on small sets of all eight names."""
    model = f"scripted:{home / 'paper.jsonl'}" if (home / "data").exists() else write_paper_data(home / "data")
    line = ["reproduce", "--model", model, "--data", "data", "--out", out, "--yes"]
    return [*line, *("--n", str(QUESTIONS), "--fit", str(FIT), "--select", str(SELECT)), *more]


def test_the_whole_paper_is_reproduced_with_one_command(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The interval of the joint AUC takes most of the time, and nothing here is about it.
    monkeypatch.setattr(belief, "RESAMPLES", 20)
    ran = beliefrag(*line_of(home, "--dry-run"))
    assert mentions(ran.err, "run train: 60 episodes", "run comparison: 240", "run rows", "money: free")
    assert not (home / "paper").exists()
    ran = beliefrag(*line_of(home))
    assert ran.code == 0, ran.err
    fitted = load_artifact(str(home / "paper" / "calibration.json"))
    assert fitted.fit is not None and fitted.retrieval_value is not None and not fitted.contaminated
    assert (len(fitted.fit.fit_questions), len(fitted.fit.selection_questions)) == (FIT, SELECT)
    run = RunRecord.read(home / "paper" / "studies" / "runs" / "comparison")
    assert set(run.datasets) == set(SETS) and run.rules == Settings(profile="paper").rules
    assert not set(fitted.fit.selection_questions) & set(run.datasets["hotpotqa"].question_ids)
    assert {path.parent.name for path in (home / "paper" / "studies").glob("*/numbers.json")} == set(STUDIES)
    page = (home / "paper" / "report.html").read_text()
    for table in published_tables().values():
        assert (f"beside {table.backbone}: {table.what}" in page) is (table.backbone == "gpt-oss-120b")
    # BeliefRAG knows one of three questions at once and another one after a second search: 3 of these 4.
    assert re.search(r"<td>BeliefRAG</td><td[^>]*>0\.750 \(0\.250 to 1\.000 \?\) \| 0\.602 \| \+0\.148</td>", page)
    assert page.count("<svg") > len(STUDIES)
    assert all(
        f"{name}: {QUESTIONS} questions" in page.partition("Deviations")[2] for name in (*SETS, "rgb", "holobench")
    )
    assert (home / "paper" / "report.pdf").read_bytes().startswith(b"%PDF")
    again = beliefrag(*line_of(home))
    assert again.code == 0 and (home / "paper" / "report.html").read_text() == page


def test_after_five_kills_the_report_is_that_of_one_run(beliefrag: Command, home: Path) -> None:
    part = ("--only", "table1", "--no-judge")
    assert beliefrag(*line_of(home, *part, out="whole")).code == 0
    draw = random.Random(0)
    total = FIT + SELECT + 9 * QUESTIONS * len(SETS)
    environment = {**os.environ, "BELIEFRAG_CACHE_DIR": str(home / "other_cache")}
    moments = sorted(draw.sample(range(total), KILLS))
    for moment in moments:
        command = [sys.executable, "-m", "beliefrag", *line_of(home, *part)]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            while count_episodes(home / "paper") <= moment and process.poll() is None:
                time.sleep(0.01)
            process.kill()
    before = count_episodes(home / "paper")
    assert moments[-1] < before
    assert beliefrag(*line_of(home, *part)).code == 0
    assert count_episodes(home / "paper") == total
    for name in ("report.html", "report.pdf", "studies/frontier/points.csv"):
        assert (home / "paper" / name).read_bytes() == (home / "whole" / name).read_bytes(), name


def test_what_is_missing_is_listed_with_the_commands_that_make_it(beliefrag: Command, home: Path) -> None:
    line = line_of(home)
    (home / "data" / "musique").rename(home / "elsewhere")
    (home / "data" / "nq").rename(home / "nowhere")
    ran = beliefrag(*line)
    assert ran.code != 0
    assert mentions(ran.err, "lacks 2 of 8", "data import musique --out data/musique", "import nq FILE... --corpus")
    assert beliefrag(*line, "--only", "tables").code == 2


def test_without_what_draws_the_report_nothing_is_run(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    ran = beliefrag(*line_of(home))
    assert ran.code != 0 and mentions(ran.err, "beliefrag[bench]")
    assert not (home / "paper").exists()


def test_the_colours_are_the_papers() -> None:
    assert [shade_of(change) for change in (0.009, 0.01, 0.049, 0.05, 0.1)] == [
        "",
        *["#EAF3F8"] * 2,
        "#D7E9F3",
        "#C2DDEA",
    ]
    assert [shade_of(change) for change in (-0.009, -0.01, -0.05, -0.378 + 0.278)] == [
        "",
        "#FAEEEE",
        "#F4DDDC",
        "#EEC7C4",
    ]


def count_episodes(out: Path) -> int:
    """Return the episodes on disk of all runs."""
    return sum(file.read_bytes().count(b"\n") for file in out.rglob("episodes.jsonl"))
