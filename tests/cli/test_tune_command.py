"""`beliefrag tune`: from a scripted survey to settings, and a real run with them that gives what was promised."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beliefrag.bench.setup import RunSpec
from beliefrag.calibration.tuning.grid import NOVELTY, RETRIEVAL_VALUE
from beliefrag.cli import bench_run
from beliefrag.runs.partitions import Partition, partition
from beliefrag.settings import Settings
from tests.cli.shell import Ran
from tests.support.bench_runs import BORROWED, PLACES, VERDICT, records, write_dataset, write_script
from tests.support.messages import mentions

Command = Callable[..., Ran]

N = 16
WEAK = {"unhelpful_doc_ids": [], "support": 0.1, "conflict": 0.0, "gap": 0.9, "uncertainty": 0.9}


def script(home: Path, verdict: dict[str, Any]) -> str:
    """Every answer is wrong until the builder's passage is found, which takes a second search."""
    lines: list[dict[str, Any]] = []
    for k in range(N):
        ask, birth = f"ship north{k} born", f"Buildernorth{k} was born in"
        lines += [
            {"purpose": "answer", "match": [ask, birth], "reply": PLACES[k % len(PLACES)], "repeat": True},
            {"purpose": "verifier", "match": [ask, birth], "reply": VERDICT, "repeat": True},
            {"purpose": "query_writer", "match": ask, "reply": f"Buildernorth{k}", "repeat": True},
        ]
    lines += [{"purpose": "verifier", "reply": verdict, "repeat": True}]
    return write_script(home, *lines)


def survey(home: Path, verdict: dict[str, Any] = WEAK, methods: tuple[str, ...] = ("survey",)) -> str:
    data = write_dataset(home, "north", N)
    model = script(home, verdict)
    settings = Settings(model=model, verifier="structured", borrow="published", cache=False)
    wanted = RunSpec((data,), methods, judge=False)
    assert bench_run.run(settings, wanted, home / "run", dry_run=False, yes=True) == 0
    return model


def mean(run: Path, name: str, of: Callable[[dict[str, Any]], float]) -> float:
    held_out = [of(r) for r in records(run) if r["method"] == name and partition(r["question_id"]) is Partition.XHOLD]
    assert held_out
    return sum(held_out) / len(held_out)


@pytest.mark.usefixtures("without_pictures")
def test_the_chosen_settings_give_in_a_real_run_what_the_recorded_states_promised(
    beliefrag: Command, home: Path
) -> None:
    model = survey(home)
    ran = beliefrag("tune", "run", "--set", "borrow=published", "--max-tokens", "100000")
    assert ran.code == 0, ran.err
    found = json.loads((home / "run" / "tune" / "tune.json").read_text())
    promised, before = found["held_out"]["chosen"], found["held_out"]["current"]
    assert promised["quality"]["mean"] > before["quality"]["mean"]
    assert promised["tokens"]["mean"] > before["tokens"]["mean"]
    settings = ran.out[ran.out.index("# chosen with") :]
    assert settings.strip() == found["settings"].strip()
    line = ("bench", "run", "--data", "north", "--methods", "beliefrag", "--no-judge", "--model", model, *BORROWED)
    for out, expected, toml in (("before", before, ""), ("after", promised, settings)):
        (home / "beliefrag.toml").write_text(toml)
        assert beliefrag(*line, "--out", out).code == 0
        assert mean(home / out, "beliefrag", lambda r: r["metrics"]["f1"]) == pytest.approx(expected["quality"]["mean"])
        assert mean(home / out, "beliefrag", lambda r: r["usage"]["tokens"]) == pytest.approx(
            expected["tokens"]["mean"]
        )
        assert mean(home / out, "beliefrag", lambda r: r["metrics"]["rounds"]) == expected["rounds"]["mean"]


def test_a_second_tuning_prints_and_writes_the_same(beliefrag: Command, home: Path) -> None:
    survey(home)
    line = ("tune", "run", "--set", "borrow=published", "--min-f1", "0.5")
    first = beliefrag(*line)
    files = {path.name: path.read_bytes() for path in (home / "run" / "tune").iterdir()}
    second = beliefrag(*line, "--out", "again")
    assert (first.code, first.out) == (0, second.out)
    assert {path.name: path.read_bytes() for path in (home / "again").iterdir()} == files
    assert set(files) == {"tune.json", "tune.csv", "tune.md", "tune.png", "tune.pdf"}


@pytest.mark.usefixtures("without_pictures")
def test_what_can_be_told_and_the_frontier_are_printed(beliefrag: Command, home: Path) -> None:
    survey(home)
    out = beliefrag("tune", "run", "--set", "borrow=published").out
    assert re.match(r"\d+ questions .* \(xsel\), \d+ .* \(xhold\)", out)
    assert re.search(r"  ending earlier, .*: yes \(", out)
    assert re.search(r"  corrections off: .*0 of 16 questions", out)
    assert mentions(out, "novelty 0.2", "corrections on", "abstained 0.0%", "answer\tretrieval\tF1\tF1 95 %\ttokens")
    assert mentions(out, "--max-tokens", "--min-f1")
    assert "[thresholds]" not in out.splitlines()


@pytest.mark.usefixtures("without_pictures")
def test_a_goal_out_of_reach_is_said_and_fails(beliefrag: Command, home: Path) -> None:
    survey(home)
    ran = beliefrag("tune", "run", "--set", "borrow=published", "--max-tokens", "1", "--retrieval-value", "0.05,0.1")
    assert ran.code == 1
    assert mentions(ran.out, "No point", "F1", "1 tokens")
    assert (home / "run" / "tune" / "tune.png").exists()


def test_corrections_off_must_have_been_recorded(beliefrag: Command, home: Path) -> None:
    survey(home, {**WEAK, "unhelpful_doc_ids": [1]})
    line = ("tune", "run", "--set", "borrow=published", "--answer", "0.9", "--retrieval-value", "0.05")
    ran = beliefrag(*line, "--corrections", "off")
    assert ran.code == 1
    assert re.search(r"corrections off .*\b\d of \d questions", ran.err)
    assert "'beliefrag calibrate collect --uncorrected'" in ran.err


@pytest.mark.usefixtures("without_pictures")
def test_corrections_recorded_both_ways_can_be_switched_off(beliefrag: Command, home: Path) -> None:
    survey(home, {**WEAK, "unhelpful_doc_ids": [1]}, ("survey", "survey_uncorrected"))
    line = ("tune", "run", "--set", "borrow=published", "--corrections", "on,off", "--answer", "0.9")
    ran = beliefrag(*line, "--retrieval-value", "0.05", "--novelty", "0.2")
    assert ran.code == 0, ran.err
    assert mentions(ran.out, "corrections off: yes", "16 of 16")


def test_a_run_without_answers_on_trial_says_what_to_run_instead(beliefrag: Command, home: Path) -> None:
    survey(home, methods=("beliefrag",))
    ran = beliefrag("tune", "run", "--set", "borrow=published")
    assert (ran.code, ran.out) == (1, "")
    assert mentions(ran.err, "error: run", "structured", "'beliefrag calibrate collect'")


def test_a_run_of_other_methods_says_what_to_run_instead(beliefrag: Command, home: Path) -> None:
    survey(home, methods=("static",))
    assert mentions(beliefrag("tune", "run").err, "run", "static", "'beliefrag calibrate collect'")


def test_another_backbones_calibration_is_refused(beliefrag: Command, home: Path) -> None:
    survey(home)
    assert mentions(beliefrag("tune", "run").err, "calibration", "scripted:", "--borrow")
    ran = beliefrag("tune", "run", "--set", "calibration=published")
    assert ran.code == 1
    assert "--borrow published" in ran.err


@pytest.mark.usefixtures("without_pictures")
def test_the_measure_must_have_been_recorded(beliefrag: Command, home: Path) -> None:
    survey(home)
    ran = beliefrag("tune", "run", "--set", "borrow=published", "--measure", "judge")
    assert mentions(ran.err, "measure judge", "Collect states")
    ran = beliefrag("tune", "run", "--set", "borrow=published", "--measure", "exact_match", "--answer", "0.5")
    assert ran.code == 0
    assert "\tEM\tEM 95 %\t" in ran.out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--answer", "0.3,x"), "not '0.3,x'"),
        (("--novelty", "1.5"), "not '1.5'"),
        (("--answer", "nan"), "not 'nan'"),
        (("--corrections", "maybe"), "not 'maybe'"),
        (("--max-tokens", "9", "--min-f1", "0.5"), "--max-tokens and --min-f1"),
        (("--max-tokens", "nan"), "Invalid value for '--max-tokens'"),
        (("--measure", "f2"), "measure 'f2'.* judge, f1"),
    ],
)
def test_wrong_usage_is_one_line(beliefrag: Command, given: tuple[str, ...], words: str) -> None:
    ran = beliefrag("tune", "run", *given)
    assert ran.code == 2
    assert re.search(words, ran.err)


def test_the_help_names_the_values_that_are_really_tried(beliefrag: Command) -> None:
    words = re.sub(r"[\s│]+", " ", beliefrag("tune", "--help").out)
    for values in (RETRIEVAL_VALUE, NOVELTY):
        assert f"By default {', '.join(f'{value:g}' for value in values)}." in words
    assert "Example: beliefrag tune " in words


@pytest.mark.usefixtures("without_pictures")
def test_the_commands_of_the_page_work(beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey(home)
    (home / "runs").mkdir()
    (home / "run").rename(home / "runs" / "states")
    monkeypatch.setenv("BELIEFRAG_BORROW", "published")
    page = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")
    commands = re.findall(r"^beliefrag (.*)$", page, re.MULTILINE)
    assert len(commands) >= 4
    for line in commands:
        ran = beliefrag(*line.split())
        assert ran.code == 0, f"{line}: {ran.out} {ran.err}"
