"""`beliefrag calibrate fit`, `show` and `compare`, and what a run says of a calibration that has seen its questions."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag._version import __version__
from beliefrag.calibration import fitting, load_artifact
from beliefrag.calibration.artifact import LogisticFit
from beliefrag.runs.partitions import Partition, partition
from tests.cli.shell import Ran, on_terminal
from tests.support.bench_runs import BORROWED, write_dataset, write_script
from tests.support.messages import mentions
from tests.support.planted_states import SCALE, write_run

Command = Callable[..., Ran]
PAGE = Path(__file__).parents[2] / "docs" / "calibration.md"


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "RESAMPLES", 12)


@pytest.fixture
def states(home: Path) -> Path:
    return write_run(home / "runs" / "states", questions=120)


def rows(text: str, title: str) -> dict[str, list[str]]:
    """The lines under a heading, by their first cell."""
    below = text.split(f"\n{title}", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return {cells[0]: cells[1:] for cells in (line.split("\t") for line in below)}


def test_a_fit_is_written_told_and_can_be_shown_again(beliefrag: Command, states: Path) -> None:
    ran = beliefrag("calibrate", "fit", states)
    assert ran.code == 0, ran.err
    file = states / "calibration.json"
    assert f"written: {file}" in ran.err
    artifact = load_artifact(str(file))
    assert artifact.score_scale == SCALE
    shown = beliefrag("calibrate", "show", file)
    assert shown == Ran(0, ran.out, "")
    assert float(rows(ran.out, "Answerability on held-out")["Brier"][0]) == round(artifact.quality["brier"], 4)
    assert rows(ran.out, "Brier score of each")[artifact.answerability.kind][1] == "chosen"
    assert rows(ran.out, "Coefficients of the logistic")["conflict"][:2] == ["+0.000", "-"]
    assert mentions(ran.out, "left out\t120 states", "0 without a label")
    assert "conflict does not vary" in ran.out.split("\nWarnings")[1]


def test_the_reliability_curve_marks_what_came_true_and_what_was_predicted(beliefrag: Command, states: Path) -> None:
    ran = beliefrag("calibrate", "fit", states)
    artifact = load_artifact(str(states / "calibration.json"))
    assert artifact.fit is not None and artifact.fit.answerability.held_out is not None
    drawn = rows(ran.out, "Reliability")
    drawn.pop("predicted")
    assert len(drawn) == len(artifact.fit.answerability.held_out.curve)
    for each, (count, predicted, observed, bar) in zip(
        artifact.fit.answerability.held_out.curve, drawn.values(), strict=True
    ):
        assert (count, predicted, observed) == (str(each.states), f"{each.predicted:.3f}", f"{each.observed:.3f}")
        assert len(bar) == 30 and bar.count("|") == 1
        assert abs(bar.count("#") - 30 * each.observed) <= 1.5
        assert abs(bar.index("|") - 30 * each.predicted) <= 1


def test_name_and_label_are_in_the_file(beliefrag: Command, states: Path, home: Path) -> None:
    ran = beliefrag("calibrate", "fit", states, "--name", "mine", "--label", "cover", "--out", "a/b.json")
    assert ran.code == 0, ran.err
    shown = beliefrag("calibrate", "show", "a/b.json", "--json").record
    assert (shown["name"], shown["fit"]["label"], shown["contaminated"]) == ("mine", "cover", False)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fit", "nowhere"), 1, "nowhere holds no run"),
        (("fit", "runs/states", "--label", "tea-leaves"), 2, "'tea-leaves'. Known: judge, f1"),
        (("fit", "runs/states", "--label", "judge"), 1, "(xfit)"),
        (("fit", "runs/states", "--out", "runs"), 1, "runs cannot be written"),
        (("show", "nonsense"), 1, "'nonsense'"),
        (("compare", "published", "published", "--label", "f1"), 2, "Add --states"),
    ],
)
def test_mistakes_are_told_in_one_line(
    beliefrag: Command, states: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = beliefrag("calibrate", *arguments)
    assert ran.code == code
    assert words in ran.err
    assert ran.out == "" and len(ran.err.splitlines()) == 1


SHIPPED = ["published", "qwen2.5-coder-1.5b-lean", "qwen2.5-coder-1.5b"]


def test_without_a_name_the_shipped_calibrations_are_listed(beliefrag: Command) -> None:
    ran = beliefrag("calibrate", "show")
    assert [line.split("\t")[0] for line in ran.out.splitlines()] == ["name", *SHIPPED]
    listed = json.loads(beliefrag("calibrate", "show", "--json").out)
    assert [each["name"] for each in listed] == SHIPPED


def test_the_published_calibration_is_shown_with_what_is_known_of_it(beliefrag: Command) -> None:
    ran = beliefrag("calibrate", "show", "published")
    assert rows(ran.out, "Quality, as")["brier"] == ["0.2236"]
    assert rows(ran.out, "Coefficients")["support"] == ["+0.5330"]


def test_a_fit_writes_over_a_calibration_and_over_nothing_else(beliefrag: Command, home: Path, states: Path) -> None:
    (home / "notes.txt").write_text("mine")
    ran = beliefrag("calibrate", "fit", states, "--out", "notes.txt")
    assert ran.code == 2 and mentions(ran.err, "notes.txt", "--out")
    assert (home / "notes.txt").read_text() == "mine"
    assert beliefrag("calibrate", "fit", states, "--out", "mine.json", "--name", "one").code == 0
    assert beliefrag("calibrate", "fit", states, "--out", "mine.json", "--name", "two").code == 0
    assert load_artifact("mine.json").name == "two"


def test_two_calibrations_are_compared_on_states_that_neither_has_seen(beliefrag: Command, states: Path) -> None:
    beliefrag("calibrate", "fit", states, "--out", "mine.json")
    ran = beliefrag("calibrate", "compare", "mine.json", "published", "--states", states)
    assert ran.code == 0, ran.err
    held_out = sum(partition(f"q{n}") is Partition.XHOLD for n in range(120))
    assert mentions(ran.err, f"{120 - held_out} questions", "left out")
    assert mentions(ran.err, "published", "openai:gpt-oss-120b")
    assert mentions(ran.out, f"{3 * held_out} states", f"{held_out} questions", "f1")
    measured = rows(ran.out, "On the same")
    own = load_artifact("mine.json")
    for name in ("Brier", "AUC", "ECE"):
        assert float(measured[name][0]) == pytest.approx(own.quality[name.lower()], abs=6e-5)
        first, second, difference = (float(cell) for cell in measured[name][:3])
        assert difference == pytest.approx(first - second, abs=2e-4)
    assert measured["Brier"][4] == "clear"
    assert measured["ECE"][3] == "-" and "no interval" in measured["ECE"][4]


def test_a_calibration_compared_with_itself_does_not_differ(beliefrag: Command, states: Path) -> None:
    ran = beliefrag("calibrate", "compare", "published", "published", "--states", states)
    for cells in (rows(ran.out, "On the same")[name] for name in ("Brier", "AUC", "ECE")):
        assert cells[2] == "+0.0000" and cells[4] != "clear"


def test_a_calibration_is_measured_on_states_that_it_has_not_seen(beliefrag: Command, states: Path) -> None:
    beliefrag("calibrate", "fit", states, "--out", "mine.json")
    own = load_artifact("mine.json")
    assert own.fit is not None
    ran = beliefrag("calibrate", "check", "mine.json", "--states", states, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    # The states it has not seen are those that it was held out on when it was fitted.
    held_out = json.loads(own.fit.answerability.held_out.model_dump_json())  # type: ignore[union-attr]
    assert {name: found["overall"][name] for name in held_out} == held_out
    assert found["own_base_rate"] is True
    ran = beliefrag("calibrate", "check", "mine.json", "--states", states)
    told = rows(ran.out, "Answerability on unseen questions: all datasets")
    assert float(told["gain over the base rate"][0]) == pytest.approx(own.quality["brier_gain"], abs=6e-5)


def test_the_quality_can_be_told_by_another_run(beliefrag: Command, states: Path) -> None:
    beliefrag("calibrate", "fit", states, "--out", "mine.json")
    beliefrag("calibrate", "fit", states, "--out", "same.json", "--quality-on", states)
    mine, same = load_artifact("mine.json"), load_artifact("same.json")
    assert mine.fit is not None and same.fit is not None
    # Of the same run, the questions that are neither fitted nor chosen on are those of xhold.
    assert same.fit.answerability.held_out == mine.fit.answerability.held_out
    assert same.fit.retrieval_value is not None and same.fit.retrieval_value == mine.fit.retrieval_value
    assert mentions(same.partition, "other questions", "made-up")
    assert same.answerability == mine.answerability


def test_the_quality_of_the_retrieval_value_is_printed_and_can_be_told_by_another_run(
    beliefrag: Command, home: Path, states: Path
) -> None:
    others = write_run(home / "runs" / "others", questions=[f"other{n}" for n in range(60)], seed=3)
    briers = []
    for more in ((), ("--quality-on", others)):
        ran = beliefrag("calibrate", "fit", states, "--out", "mine.json", *more)
        fit = load_artifact("mine.json").fit
        assert fit is not None and fit.retrieval_value is not None and fit.retrieval_value.held_out is not None
        told = float(rows(ran.out, "Retrieval value on held-out questions")["Brier"][0])
        assert told == round(fit.retrieval_value.held_out.brier.value, 4)
        briers.append(told)
    assert briers[0] != briers[1]


def test_a_check_on_easier_states_gives_the_gain_over_their_own_share_too(
    beliefrag: Command, home: Path, states: Path
) -> None:
    beliefrag("calibrate", "fit", states, "--out", "mine.json")
    # Nearly all come true whatever was measured: only who expects fewer has much to gain there.
    easy = write_run(home / "easy", questions=[f"other{k}" for k in range(60)], chance=lambda _: 0.95)
    found = json.loads(beliefrag("calibrate", "check", "mine.json", "--states", easy, "--json").out)
    overall = found["overall"]
    share = overall["share"]
    assert overall["brier_share"] == pytest.approx(share * (1 - share), abs=2e-6)
    lost = (share - found["base_rate"]) ** 2
    assert lost > 0.05
    assert overall["brier_base_rate"] == pytest.approx(overall["brier_share"] + lost, abs=2e-6)
    gain, stricter = overall["brier_gain"], overall["brier_gain_over_share"]
    assert stricter["value"] == pytest.approx(gain["value"] - lost, abs=3e-6)
    assert stricter["low"] < stricter["value"] < stricter["high"] < 0
    told = rows(beliefrag("calibrate", "check", "mine.json", "--states", easy).out, "Answerability on unseen questions")
    assert float(told["Brier of these states' share"][0]) == round(overall["brier_share"], 4)
    assert told["gain over these states' share"][0] == f"{stricter['value']:+.4f}"
    assert "not clear" in told["gain over these states' share"][2]


def test_a_gain_on_few_questions_is_not_called_clear(beliefrag: Command, home: Path, states: Path) -> None:
    beliefrag("calibrate", "fit", states, "--out", "mine.json")
    title = "Answerability on unseen questions"
    told = {}
    for n in (12, 60):
        run = write_run(home / f"of{n}", questions=[f"other{k}" for k in range(n)])
        found = json.loads(beliefrag("calibrate", "check", "mine.json", "--states", run, "--json").out)
        assert found["overall"]["brier_gain"]["low"] > 0
        told[n] = rows(beliefrag("calibrate", "check", "mine.json", "--states", run).out, title)
    assert mentions(told[12]["gain over the base rate"][2], "not clear", "20 questions")
    assert told[60]["gain over the base rate"][2] == "clear"


def test_a_calibration_that_tells_no_base_rate_is_held_to_that_of_the_states(beliefrag: Command, states: Path) -> None:
    ran = beliefrag("calibrate", "check", "published", "--states", states)
    assert mentions(ran.out, "base rate", "of these states")
    assert mentions(ran.err, "published", "does not say")


def test_a_calibration_that_has_seen_every_question_cannot_be_compared_on_them(
    beliefrag: Command, states: Path
) -> None:
    beliefrag("calibrate", "fit", states, "--out", "mine.json")
    artifact = load_artifact("mine.json")
    assert artifact.fit is not None
    every = artifact.fit.model_copy(update={"fit_questions": tuple(f"q{n}" for n in range(120))})
    seen = artifact.model_copy(update={"fit": every, "contaminated": True})
    Path("mine.json").write_text(seen.model_dump_json())
    ran = beliefrag("calibrate", "compare", "mine.json", "published", "--states", states)
    assert ran.code == 1
    assert mentions(ran.err, "120 questions", "--label")


def test_a_run_warns_of_questions_that_its_calibration_has_seen(beliefrag: Command, states: Path, home: Path) -> None:
    beliefrag("calibrate", "fit", states)
    artifact = load_artifact(str(states / "calibration.json"))
    assert artifact.fit is not None
    seen = artifact.fit.model_copy(update={"fit_questions": ("north-q0", "north-q2"), "selection_questions": ("q1",)})
    (home / "mine.json").write_text(artifact.model_copy(update={"fit": seen}).model_dump_json())
    write_dataset(home, "north", 4)
    line = (
        "bench",
        "run",
        "--data",
        "north",
        "--model",
        write_script(home),
        "--set",
        "verifier=structured",
        "--out",
        "run",
    )
    ran = beliefrag(*line, "--methods", "static,beliefrag", "--set", "borrow=mine.json")
    assert ran.code == 0, ran.err
    assert mentions(ran.err, "calibration made-up", "2 of these questions")
    # Going on without BeliefRAG forgets nothing.
    assert beliefrag(*line, "--methods", "no_rag").code == 0
    report = beliefrag("bench", "report", "run").out.splitlines()[0]
    assert mentions(report, "calibration made-up", "2 of the questions")
    record = json.loads((home / "run" / "run.json").read_text())["datasets"]["north"]
    assert sorted(record["seen_by_calibration"]) == ["north-q0", "north-q2"]
    assert record["score_scales"]["bm25"]["scale"] > 0


def test_a_run_with_another_calibration_says_nothing_of_the_kind(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "north", 2)
    line = ("bench", "run", "--data", "north", "--model", write_script(home), *BORROWED, "--out", "run")
    ran = beliefrag(*line, "--methods", "beliefrag")
    assert "fitted or chosen on" not in ran.err + beliefrag("bench", "report", "run").out


def test_a_terminal_gets_tables(home: Path) -> None:
    code, screen = on_terminal("calibrate", "show", "qwen2.5-coder-1.5b", columns=100)
    assert code == 0
    fitted = load_artifact("qwen2.5-coder-1.5b").answerability
    assert isinstance(fitted, LogisticFit)
    assert re.search(rf"uncertainty\s+{fitted.weights.uncertainty:+.3f}", screen)


def test_the_commands_of_the_page_work(
    beliefrag: Command, home: Path, states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(home / "data", "hotpotqa", split="train")
    (home / "notes").mkdir()
    story = "She sailed to the north and to the south with a crew of thirteen men, and came home after years."
    (home / "notes" / "ship.txt").write_text(f"The ship north0 was built in Larvik. {story}", encoding="utf-8")
    (home / "asked.csv").write_text("question,answers\nWhere was ship north0 built?,Larvik\n", encoding="utf-8")
    monkeypatch.setenv("BELIEFRAG_MODEL", write_script(home))
    monkeypatch.setenv("BELIEFRAG_VERIFIER", "structured")
    commands = re.findall(r"^beliefrag (calibrate .*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) >= 5
    for line in commands:
        ran = beliefrag(*shlex.split(line))
        assert ran.code == 0, f"{line}: {ran.err}"


@pytest.mark.parametrize(
    ("where", "command"),
    [
        ("budget", ("calibrate", "fit", "RUN")),
        ("thresholds", ("tune", "RUN", "--set", "borrow=published")),
    ],
)
def test_a_run_of_another_version_is_told_in_one_line(
    beliefrag: Command, states: Path, where: str, command: tuple[str, ...]
) -> None:
    record = json.loads((states / "run.json").read_text())
    changed = record["setups"]["survey"] if where == "thresholds" else record
    changed[where]["newfangled"] = 1
    (states / "run.json").write_text(json.dumps(record))
    ran = beliefrag(*(str(states) if each == "RUN" else each for each in command))
    assert (ran.code, ran.out) == (1, "")
    assert mentions(ran.err, "another version", "run.json names 0", __version__, "newfangled")
    assert ran.err.count("\n") == 1


def test_a_run_given_twice_would_count_twice(beliefrag: Command, home: Path, states: Path) -> None:
    (home / "same").symlink_to(states)
    for again in (states, home / "same"):
        ran = beliefrag("calibrate", "fit", states, again)
        assert (ran.code, ran.out) == (1, "")
        assert f"{again} is given twice" in ran.err
    assert not (states / "calibration.json").exists()
