"""`beliefrag bench run` with --noise, --counterfactual, and with own questions on own documents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from beliefrag.runs.record import RunRecord
from tests.cli.shell import Ran
from tests.support.bench_runs import records, write_script
from tests.support.messages import mentions
from tests.support.study_data import write_snippets

Command = Callable[..., Ran]


def test_both_shares_are_injected_told_and_recorded(beliefrag: Command, home: Path) -> None:
    write_snippets(home)
    line = ["bench", "run", "--data", "rgb", "--split", "fact", "--methods", "static", "--no-judge", "--out", "run"]
    shares = ("--set", "run.noise=0.4", "--set", "run.counterfactual=0.2", "--set", "run.seed=5")
    ran = beliefrag(*line, "--model", write_script(home), *shares)
    assert ran.code == 0, ran.err
    assert mentions(ran.err, "injected", "40 % irrelevant", "20 % counterfactual", "seed 5")
    assert mentions(ran.err, "of 6 questions 0")
    injection = RunRecord.read(home / "run").injection
    assert injection is not None
    assert (injection.noise, injection.counterfactual, injection.seed) == (0.4, 0.2, 5)
    injected = [episode.injected for episode in records(home / "run")]
    assert {(len(each.noise), len(each.counterfactual)) for each in injected if each} == {(2, 1)}


def test_neither_or_both_sources_of_questions_are_refused(beliefrag: Command, home: Path) -> None:
    write_snippets(home)
    for given in ([], ["--data", "rgb", "--questions", "asked.csv"], ["--data", "rgb", "--docs", "notes"]):
        ran = beliefrag("bench", "run", "--out", "run", *given)
        assert ran.code != 0
        assert "--questions" in ran.err
