"""`beliefrag tune`: from a scripted survey to settings, and a real run with them that gives what was promised."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beliefrag.bench.setup import RunSpec
from beliefrag.cli.bench import carry_out_run
from beliefrag.record import Episode
from beliefrag.runs.partitions import Partition, partition
from beliefrag.settings import Settings
from tests.cli.shell import Ran
from tests.support.bench_runs import BORROWED, PLACES, VERDICT, records, write_dataset, write_script

Command = Callable[..., Ran]

N = 16
WEAK = {"unhelpful_doc_ids": [], "support": 0.1, "conflict": 0.0, "gap": 0.9, "uncertainty": 0.9}


def script(home: Path, verdict: dict[str, Any]) -> str:
    """Make every answer wrong until the builder's passage is found, which takes a second search."""
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
    assert carry_out_run(settings, wanted, home / "run", yes=True) == 0
    return model


def mean(run: Path, name: str, of: Callable[[Episode], float | None]) -> float:
    held_out = [of(r) or 0.0 for r in records(run) if r.method == name and partition(r.question.id) is Partition.XHOLD]
    assert held_out
    return sum(held_out) / len(held_out)


def test_the_chosen_settings_give_in_a_real_run_what_the_recorded_states_promised(
    beliefrag: Command, home: Path
) -> None:
    model = survey(home)
    ran = beliefrag("tune", "run", "--set", "borrow=published", "--max-tokens", "100000")
    assert ran.code == 0, ran.err
    with (home / "run" / "tune.csv").open() as file:
        rows = list(csv.DictReader(file))
    promised, before = (row for row in rows if row["part"] == "xhold")
    assert float(promised["F1"]) > float(before["F1"])
    settings = ran.out[ran.out.index("[thresholds]") :]
    line = ("bench", "run", "--data", "north", "--methods", "beliefrag", "--no-judge", "--model", model, *BORROWED)
    for out, expected, toml in (("before", before, ""), ("after", promised, settings)):
        (home / "beliefrag.toml").write_text(toml)
        assert beliefrag(*line, "--out", out).code == 0
        assert mean(home / out, "beliefrag", lambda r: r.metrics["f1"]) == pytest.approx(float(expected["F1"]))
        assert mean(home / out, "beliefrag", lambda r: r.usage.tokens) == pytest.approx(float(expected["tokens"]))
