"""The live display, looked at on a terminal: what it shows, and the record that it leaves."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from beliefrag.cli.live import BeliefBars
from beliefrag.explanation import BELIEF_WORDS
from beliefrag.types import Belief
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, UNSURE, in_shell, on_terminal, write_docs, write_script
from tests.support.http_server import ChatServer, completion, failure
from tests.support.messages import mentions

SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BELIEF = Belief(sufficiency=0.25, reliability=0.5, conflict=0.75, uncertainty=0.0, gap=1.0, cost=0.5)


def drawn(gauges: BeliefBars, *, width: int = 80, encoding: str = "utf-8") -> list[str]:
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, markup=False, legacy_windows=False)
    console.print(gauges)
    file.seek(0)
    return file.read().splitlines()


def test_the_terminal_keeps_a_record_of_every_step_and_the_ending(home: Path) -> None:
    model = write_script(home, SURE, ANSWER)
    code, screen = on_terminal("ask", QUESTION, "--docs", write_docs(home), "--model", model, *BORROWED)
    text = SEQUENCES.sub("", screen)
    assert code == 0
    for expected in (
        "1  search   not answerable yet",
        "little of what",
        "something is missing",
        "found    3 new (",
        "2  answer   the question",
        "answers from 0.50",
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
    assert screen[before_last:last].count("\x1b[2K") >= 8
    assert all(len(line) <= 80 for line in text.replace("\r", "\n").split("\n"))


def test_the_bar_has_the_threshold_that_is_in_force(home: Path) -> None:
    (home / "beliefrag.toml").write_text("[thresholds]\ndecline_below = 0.71\n")
    model = write_script(home, SURE, ANSWER)
    _, screen = on_terminal("ask", QUESTION, "--docs", write_docs(home), "--model", model, *BORROWED)
    assert "answers from 0.71" in SEQUENCES.sub("", screen)


def test_json_on_a_terminal_leaves_only_the_json_behind(home: Path) -> None:
    model = write_script(home, SURE, ANSWER)
    code, screen = on_terminal("ask", QUESTION, "--docs", write_docs(home), "--model", model, *BORROWED, "--json")
    assert code == 0
    lines = [line for line in SEQUENCES.sub("", screen).replace("\r", "\n").split("\n") if line.strip()]
    assert lines[-1].startswith('{"question":')
    assert "search   not answerable" not in screen


def test_warnings_stay_on_standard_error(home: Path, chat_server: ChatServer) -> None:
    # The server objects to the JSON schema, which is worth a warning in the middle of an episode.
    objection = failure(400, "response_format is not supported")
    chat_server.play(objection, completion(json.dumps(SURE["reply"])), completion("Larvik"))
    given = ("ask", QUESTION, "--docs", write_docs(home), "--model", "m", "--base-url", chat_server.url, *BORROWED)
    code, screen = on_terminal(*given, errors=home / "errors.txt")
    assert code == 0
    assert "answer      Larvik" in SEQUENCES.sub("", screen)
    assert "warning: " not in screen
    # A slow machine also says there how far the indexing is.
    said = (home / "errors.txt").read_text().splitlines()
    assert any(line.startswith("warning: http://127.0.0.1:") for line in said)


def test_colours_that_are_forced_do_not_reach_a_pipe(home: Path) -> None:
    model = write_script(home, SURE, ANSWER)
    given = ("ask", QUESTION, "--docs", write_docs(home), "--model", model, *BORROWED)
    ran = in_shell(*given, env={"FORCE_COLOR": "1", "TTY_COMPATIBLE": "1", "CLICOLOR_FORCE": "1"})
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err


def test_a_terminal_that_cannot_redraw_gets_plain_lines(home: Path) -> None:
    model = write_script(home, UNSURE, ANSWER)
    given = ("ask", QUESTION, "--docs", write_docs(home), "--model", model, *BORROWED, "--set", "budget.rounds=1")
    code, screen = on_terminal(*given, term="dumb")
    assert code == 0
    assert "\x1b" not in screen
    assert "answer: Larvik" in screen


def test_bars_are_as_long_as_their_values() -> None:
    gauges = BeliefBars(threshold=0.5, tokens=1000)
    gauges.set_belief(BELIEF, 0.75, 500)
    lines = drawn(gauges)
    length = lines[0].count("━") + lines[0].count("─")
    assert [line.count("━") for line in lines[:6]] == [round(v * length) for v in (0.25, 0.5, 0.75, 0, 1, 0.5)]
    assert lines[6].index("┃") - lines[6].index("━") == length // 2
    assert lines[5].endswith("0.50  500 of 1,000 tokens")
    assert lines[6].endswith("0.75  answers from 0.50")


def test_a_step_shows_how_far_each_belief_moved() -> None:
    gauges = BeliefBars(threshold=0.5, tokens=1000)
    gauges.set_belief(BELIEF, 0.2, 0)
    assert not re.search(r"[+-]\d", "".join(drawn(gauges)))
    gauges.set_belief(Belief(0.75, 0.5, 0.25, 0.0, 1.0, 0.5), 0.2, 0)
    assert [line.split()[-1] for line in drawn(gauges)[:3]] == ["+0.50", "0.50", "-0.50"]


def test_a_wait_is_named_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("beliefrag.cli.live.time.monotonic", lambda: now[0])
    gauges = BeliefBars(threshold=0.5, tokens=1000)
    gauges.set_wait("verifier")
    now[0] += 12.2
    assert mentions(drawn(gauges)[-1], "evidence", "12 s")
    gauges.set_wait(None)
    assert drawn(gauges) == []


@pytest.mark.parametrize("width", [20, 30, 46, 60, 200])
def test_a_narrow_terminal_gets_lines_that_fit(width: int) -> None:
    gauges = BeliefBars(threshold=0.5, tokens=1000)
    gauges.set_belief(BELIEF, 0.75, 500)
    gauges.set_wait("answer")
    lines = drawn(gauges, width=width)
    assert len(lines) == 8
    assert all(len(line) <= width for line in lines)


def test_an_old_terminal_gets_characters_that_it_knows() -> None:
    gauges = BeliefBars(threshold=0.5, tokens=1000)
    gauges.set_belief(BELIEF, 0.75, 500)
    gauges.set_wait("answer")
    lines = drawn(gauges, encoding="ascii")
    assert all(line.isascii() for line in lines)
    assert "====" in lines[1]
