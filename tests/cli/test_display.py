"""How an episode is shown: live on a terminal, as plain lines elsewhere, and the words of both."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from beliefrag.cli.ask import LineDisplay
from beliefrag.cli.live import LiveDisplay
from beliefrag.explanation import BELIEF_WORDS
from beliefrag.record import AnswerText, CallStarted, Episode, Outcome
from beliefrag.types import Question
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, in_shell, on_terminal, write_docs, write_script
from tests.support.messages import mentions

SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def asked(home: Path, *more: str) -> tuple[str | Path, ...]:
    return ("ask", QUESTION, "--docs", write_docs(home), "--model", write_script(home, SURE, ANSWER), *BORROWED, *more)


def test_the_terminal_keeps_a_record_of_every_step_and_the_ending(home: Path) -> None:
    code, screen = on_terminal(*asked(home, "--steps"))
    text = SEQUENCES.sub("", screen)
    assert code == 0
    for expected in ("1.  search: not answerable yet", "nothing has been read", "found: 3 new (", "2.  answer: "):
        assert expected in text, expected
    last = " ".join(text[text.rindex("2.  answer") :].split())
    assert all(re.search(rf"{name} \d\.\d\d", last) for name in BELIEF_WORDS.values())
    assert all(len(line) <= 80 for line in text.replace("\r", "\n").split("\n"))


def test_json_on_a_terminal_leaves_only_the_json_behind(home: Path) -> None:
    code, screen = on_terminal(*asked(home, "--json"))
    assert code == 0
    lines = [line for line in SEQUENCES.sub("", screen).replace("\r", "\n").split("\n") if line.strip()]
    assert lines[-1].startswith("{") and lines[-1].endswith("}")
    assert "search: not answerable" not in screen


def test_neither_a_pipe_nor_a_terminal_that_cannot_redraw_gets_control_codes(home: Path) -> None:
    given = asked(home)
    ran = in_shell(*given, env={"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "CLICOLOR_FORCE": "1"})
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    code, screen = on_terminal(*given, term="dumb")
    assert code == 0
    assert "\x1b" not in screen and screen.endswith(" s\r\n") and "Larvik\r\n" in screen


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_without_steps_only_the_ending_stays_and_its_lines_fit(home: Path, columns: int) -> None:
    code, screen = on_terminal(*asked(home), columns=columns)
    kept = SEQUENCES.sub("", screen[screen.rindex("Larvik", 0, screen.index("likely right")) :]).split("\r\n")
    assert code == 0 and kept[0] == "Larvik" and "search:" not in screen
    assert all(len(line) <= columns for line in kept)


def test_without_a_terminal_a_silent_wait_is_broken_by_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("beliefrag.cli.output._SECONDS_OF_SILENCE", 0.05)
    with LineDisplay(sys.stdout, calibration="none") as display:
        display.show(CallStarted(purpose="answer"))
        time.sleep(0.4)
    written, waited = capsys.readouterr()
    lines = waited.splitlines()
    assert written == "", "what is waited for is no part of the answer"
    assert len(lines) >= 3 and all(mentions(line, "model", "answer,") for line in lines)


def test_an_answer_is_shown_while_it_is_written_and_not_twice_in_the_end() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=60, markup=False)
    with LiveDisplay(console, calibration="none") as display:
        for at, text in ((0, "Paris"), (5, " it is"), (0, "Rome")):
            display.show(AnswerText(at=at, text=text))
            time.sleep(0.3)
        written = SEQUENCES.sub("", file.getvalue())
        display.show(Episode(method="m", question=Question("q"), outcome=Outcome.STOPPED, answer="Rome"))
    shown = dict.fromkeys(line.strip() for line in re.split(r"[\r\n]+", written) if line.strip())
    assert list(shown) == ["Paris", "Paris it is", "Rome"]
    assert SEQUENCES.sub("", file.getvalue())[len(written) :].count("Rome") == 1
