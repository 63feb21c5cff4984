"""How an episode is shown: live on a terminal, as plain lines elsewhere, and the words of both."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from beliefrag.cli.ask import LineDisplay
from beliefrag.cli.live import BeliefBars, LiveDisplay
from beliefrag.explanation import BELIEF_WORDS
from beliefrag.record import AnswerText, CallStarted, Episode, Outcome, Step
from beliefrag.types import Action, Belief, Question
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, in_shell, on_terminal, write_docs, write_script
from tests.support.messages import mentions

SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BELIEF = Belief(sufficiency=0.25, reliability=0.5, conflict=0.75, uncertainty=0.0, gap=1.0, cost=0.5)


def asked(home: Path, *more: str) -> tuple[str | Path, ...]:
    return ("ask", QUESTION, "--docs", write_docs(home), "--model", write_script(home, SURE, ANSWER), *BORROWED, *more)


def test_the_terminal_keeps_a_record_of_every_step_and_the_ending(home: Path) -> None:
    (home / "beliefrag.toml").write_text("[thresholds]\ndecline_below = 0.51\n")
    code, screen = on_terminal(*asked(home))
    text = SEQUENCES.sub("", screen)
    assert code == 0
    for expected in (
        "1  search   not answerable yet",
        "little of what",
        "found    3 new (",
        "2  answer   the question",
        "answers from 0.51",
        "of 12,000 tokens",
        "answer      Larvik",
        "confidence  ",
        "cost        ",
    ):
        assert expected in text, expected
    bars = re.findall(
        r"^  (\w+(?: \w+)?) +[━─]", text[text.rindex("2  answer") : text.index("\nanswer ")], re.MULTILINE
    )
    assert bars[-7:] == list(BELIEF_WORDS.values())
    # The moving part is wiped away before its last state is printed for good.
    *_, before_last, last = (match.start() for match in re.finditer("answers from", screen))
    assert screen[before_last:last].count("\x1b[2K") >= 7
    assert all(len(line) <= 80 for line in text.replace("\r", "\n").split("\n"))


def test_json_on_a_terminal_leaves_only_the_json_behind(home: Path) -> None:
    code, screen = on_terminal(*asked(home, "--json"))
    assert code == 0
    lines = [line for line in SEQUENCES.sub("", screen).replace("\r", "\n").split("\n") if line.strip()]
    assert lines[-1].startswith("{") and lines[-1].endswith("}")
    assert "search   not answerable" not in screen


def test_neither_a_pipe_nor_a_terminal_that_cannot_redraw_gets_control_codes(home: Path) -> None:
    given = asked(home)
    ran = in_shell(*given, env={"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "CLICOLOR_FORCE": "1"})
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    code, screen = on_terminal(*given, term="dumb")
    assert code == 0
    assert "\x1b" not in screen and "answer: Larvik" in screen


def test_without_a_terminal_a_silent_wait_is_broken_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefrag.cli.output._SECONDS_OF_SILENCE", 0.05)
    written = io.StringIO()
    with LineDisplay(written, calibration="none") as display:
        display.show(CallStarted(purpose="answer"))
        time.sleep(0.4)
    lines = written.getvalue().splitlines()
    assert len(lines) >= 3 and all(mentions(line, "model", "answer,") for line in lines)


def test_an_answer_is_shown_while_it_is_written_and_not_twice_in_the_end() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=60, markup=False)
    with LiveDisplay(console, calibration="none", threshold=0.5) as display:
        for at, text in ((0, "Paris"), (5, " it is"), (0, "Rome")):
            display.show(AnswerText(at=at, text=text))
            time.sleep(0.3)
        written = SEQUENCES.sub("", file.getvalue())
        display.show(Episode(method="m", question=Question("q"), outcome=Outcome.STOPPED, answer="Rome"))
    shown = dict.fromkeys(line.strip() for line in re.split(r"[\r\n]+", written) if line.strip())
    assert list(shown) == ["Paris", "Paris it is", "Rome"]
    assert SEQUENCES.sub("", file.getvalue())[len(written) :].count("Rome") == 1


def step(action: Action = Action.RETRIEVE, **fields: object) -> Step:
    return Step.model_validate({"number": 0, "action": action, "reason": "retrieve", **fields})


def drawn(bars: BeliefBars, *, width: int = 80, encoding: str = "utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width, markup=False, legacy_windows=False).print(bars)
    file.seek(0)
    return file.read().splitlines()


@pytest.fixture
def bars() -> BeliefBars:
    found = BeliefBars(threshold=0.5, tokens=1000)
    found.set_step(step(belief=BELIEF, answerability=0.75, tokens=500))
    return found


def test_bars_are_as_long_as_their_values(bars: BeliefBars) -> None:
    lines = drawn(bars)
    length = lines[0].count("━") + lines[0].count("─")
    assert [line.count("━") for line in lines[:6]] == [round(v * length) for v in (0.25, 0.5, 0.75, 0, 1, 0.5)]
    assert lines[6].index("┃") - lines[6].index("━") == length // 2
    assert lines[5].endswith("0.50  500 of 1,000 tokens")
    assert lines[6].endswith("0.75  answers from 0.50")


@pytest.mark.parametrize(("width", "encoding"), [(20, "utf-8"), (46, "utf-8"), (200, "utf-8"), (80, "ascii")])
def test_narrow_and_old_terminals_get_lines_that_fit(bars: BeliefBars, width: int, encoding: str) -> None:
    bars.set_wait("answer")
    lines = drawn(bars, width=width, encoding=encoding)
    assert len(lines) == 8
    assert all(len(line) <= width and (encoding == "utf-8" or line.isascii()) for line in lines)
