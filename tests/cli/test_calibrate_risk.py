"""`beliefrag calibrate risk`, and `ask --max-error` that keeps to what it chose."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.cli import main
from beliefrag.record import Episode
from beliefrag.runs.run_files import read_episodes
from tests.cli.shell import Ran
from tests.support.messages import mentions
from tests.support.surveyed import HELD_OUT, calibration, knows, survey, write_model

Command = Callable[..., Ran]
TARGET = ("--max-error", "0.5", "--set", "confidence=0.8")
KNOWN, UNKNOWN = 0, 1


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibration of the model, beside the run of its survey and the dataset; and the same with guarantees."""
    folder = tmp_path_factory.mktemp("surveyed")
    file = calibration(folder, write_model(folder))
    survey(folder)
    targets = (*TARGET, "--max-error", "0.05")
    assert (
        main(["calibrate", "risk", str(file), str(folder / "run"), *targets, "--out", str(folder / "with.json")]) == 0
    )
    return folder


@pytest.fixture
def made(home: Path, surveyed: Path) -> Path:
    """The calibration without a guarantee yet."""
    shutil.copytree(surveyed, home, dirs_exist_ok=True)
    return home / "mine.json"


@pytest.fixture
def guaranteed(made: Path) -> Path:
    """The calibration with one guarantee, and with one that no threshold could give."""
    return made.with_name("with.json").replace(made)


def asking(home: Path, k: int, *more: str) -> list[str | Path]:
    corpus = home / "north" / "corpus.jsonl"
    model = f"scripted:{home / 'bench.jsonl'}"
    words = f"Where was the builder of ship north{k} born?"
    fixed = (
        "--docs",
        corpus,
        "--model",
        model,
        "--method",
        "beliefrag",
        "--set",
        "verifier=structured",
        "--set",
        "cache=false",
    )
    return ["ask", words, *fixed, "--set", f"calibration={home / 'mine.json'}", *more]


def test_a_threshold_is_chosen_and_saved(beliefrag: Command, home: Path, made: Path) -> None:
    ran = beliefrag("calibrate", "risk", made, home / "run", *TARGET, "--max-error", "0.05")
    assert ran.code == 0, ran.err
    known = sum(map(knows, HELD_OUT))
    strict, lenient = load_artifact(str(made)).guarantees
    assert (strict.max_error, strict.threshold, strict.answered) == (0.05, None, 0)
    assert (lenient.max_error, lenient.confidence, lenient.questions) == (0.5, 0.8, len(HELD_OUT))
    # All questions that the model knows, and none of those that it does not, or half of the answers would be wrong.
    assert lenient.threshold is not None and 0.4 < lenient.threshold < 0.5
    assert (lenient.answered, lenient.wrong) == (known, 0)
    assert lenient.datasets.keys() == {"north"} and lenient.label == "f1"
    assert {"system", "answer", "query_writer", "rewriter", "verifier"} == set(lenient.prompts)
    assert f"0.5\t0.8\t{lenient.threshold:.2f}\t{known} of {len(HELD_OUT)}\t0" in ran.out
    assert "0.05\t0.8\tnone" in ran.out
    assert "largest error of 0.05" in ran.err and "left out" in ran.err


def test_an_answer_that_is_too_unsure_is_held_back_and_says_why(
    beliefrag: Command, home: Path, guaranteed: Path
) -> None:
    _, guarantee = load_artifact(str(guaranteed)).guarantees
    sure = beliefrag(*asking(home, KNOWN, *TARGET, "--json"))
    assert (sure.code, sure.record["answer"]) == (0, "Larvik"), sure.err
    plain = beliefrag(*asking(home, UNKNOWN, "--set", "thresholds.decline_below=0.4", "--json"))
    assert (plain.code, plain.record["outcome"], plain.record["answer"]) == (0, "stopped", "Oslo")
    held = beliefrag(*asking(home, UNKNOWN, *TARGET, "--json"))
    assert (held.code, held.record["outcome"], held.record["answer"]) == (3, "abstained", None)
    parts = ("guarantee", "50 %", "80 % confidence", len(HELD_OUT), "north")
    assert mentions(held.record["made_with"]["guarantee"], *parts)
    last = held.record["steps"][-1]
    assert (last["reason"], last["comparisons"][0]["threshold"]) == ("abstain-unsure", guarantee.threshold)
    # What comes before the end is the same.
    held_back, given = (Episode.model_validate(each.record).without_timing() for each in (held, plain))
    assert held_back.steps[:-1] == given.steps[:-1]
    assert mentions(beliefrag(*asking(home, UNKNOWN, *TARGET)).out, *parts)


def test_a_benchmark_keeps_to_it_and_a_run_that_began_without_it_does_not_go_on_with_it(
    beliefrag: Command, home: Path, guaranteed: Path
) -> None:
    model = ("--model", f"scripted:{home / 'bench.jsonl'}", "--set", "verifier=structured")
    common = ["bench", "run", "--data", home / "north", "--methods", "beliefrag", "--no-judge", *model]
    common += ["--set", "cache=false", "--set", f"calibration={guaranteed}"]
    assert beliefrag(*common, "--out", home / "plain").code == 0
    refused = beliefrag(*common, "--out", home / "plain", "--set", "max_error=0.5", *TARGET[2:])
    (threshold,) = [each.threshold for each in load_artifact(str(guaranteed)).guarantees if each.threshold is not None]
    assert refused.code == 1 and "decline_below" in refused.err and f"{threshold:g}" in refused.err
    assert beliefrag(*common, "--out", home / "held", "--set", "max_error=0.5", *TARGET[2:]).code == 0
    outcomes = {run: outcomes_of(home / run) for run in ("plain", "held")}
    assert "abstained" not in outcomes["plain"].values()
    for question, outcome in outcomes["plain"].items():
        expected = outcome if knows(int(question.removeprefix("north-q"))) else "abstained"
        assert outcomes["held"][question] == expected


def outcomes_of(run: Path) -> dict[str, str]:
    return {episode.question.id: str(episode.outcome) for episode in read_episodes(run)}


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--max-error", "0.1"), 1, "no guarantee .*10 % .*90 %"),
        (("--max-error", "0.1"), 1, "beliefrag calibrate risk FILE RUN --max-error 0.1 --confidence 0.9"),
        (("--max-error", "0.05", "--set", "confidence=0.8"), 1, "No threshold .*5 % .*80 %"),
        ((*TARGET, "--set", "budget.rounds=2"), 1, "budget.rounds 3, not 2"),
        ((*TARGET, "--best-guess"), 2, "abstain"),
        (("--max-error", "1.5"), 2, "max_error"),
    ],
)
def test_a_guarantee_that_is_not_there_is_told_in_one_line(
    beliefrag: Command, home: Path, guaranteed: Path, more: tuple[str, ...], code: int, words: str
) -> None:
    ran = beliefrag(*asking(home, KNOWN, *more))
    assert (ran.code, ran.out) == (code, "")
    assert re.search(words, ran.err) and ran.err.count("\n") == 1
