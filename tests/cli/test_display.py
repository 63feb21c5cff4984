"""How an episode is shown: live on a terminal, as plain lines elsewhere, and the words of both."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path

import pytest
from rich.console import Console

from beliefrag.cli.ask import LineDisplay, describe_step, summary_rows
from beliefrag.cli.live import BeliefBars
from beliefrag.explanation import BELIEF_WORDS
from beliefrag.record import CallStarted, Episode, Outcome, Search, Step
from beliefrag.types import Action, Belief, Passage, Question, Usage
from tests.cli.shell import (
    ANSWER,
    BORROWED,
    QUESTION,
    SURE,
    in_shell,
    on_terminal,
    write_docs,
    write_script,
)
from tests.support.messages import mentions

SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BELIEF = Belief(sufficiency=0.25, reliability=0.5, conflict=0.75, uncertainty=0.0, gap=1.0, cost=0.5)
TITLES = {"a": "Fram", "b": "Gjøa", "c": ""}


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


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            step(search=Search(query="q", hits=(("a", 1.0),), added=("a", "b", "c"), known=("d",), refused=("e", "f"))),
            ("query q; found 3 new (Fram; Gjøa; c)", "1 known", "2 dropped"),
        ),
        (step(search=Search(query="q")), ("query q; found nothing",)),
        (step(search=Search(query=None)), ("query none: ",)),
        (step(Action.REWRITE, rewritten="other words"), ("query other words",)),
        (step(Action.REWRITE, rewritten="SUFFICIENT"), ("query none: ",)),
        (step(Action.VERIFY, dropped=("a", "b"), evidence=("c",)), ("dropped 2 (Fram; Gjøa)", "1 kept")),
        (step(Action.VERIFY, dropped=(), evidence=("c",)), ("dropped none, 1 kept",)),
    ],
)
def test_a_step_is_described_by_what_it_changed(made: Step, words: tuple[str, ...]) -> None:
    decided, changed = describe_step(made, TITLES)
    assert decided.startswith(("search: ", "rephrase: ", "check: "))
    assert mentions(changed, *words)


def ended(**fields: object) -> dict[str, tuple[str, ...]]:
    episode = Episode(method="m", question=Question("q"), outcome=Outcome.STOPPED, answer="x")
    return dict(summary_rows(episode.model_copy(update=fields)))


def test_passages_of_one_document_are_one_source() -> None:
    passages = (
        Passage("a1", "Fram", "", "ships.md"),
        Passage("b", "", "", "b.md"),
        Passage("a2", "Fram", "", "ships.md"),
    )
    found = step(passages={each.id: each for each in passages})
    rows = ended(answerability=0.314, sources=("a1", "b", "a2"), steps=(found,))
    assert rows["read"] == ("Fram (ships.md), 2 passages", "b (b.md)")
    assert rows["confidence"] == ("31%",)
    assert rows["outcome"][0].startswith("stopped: the best answer")


def test_the_cost_counts_what_was_paid_retried_and_recorded() -> None:
    usage = Usage(calls=3, tokens_in=1200, tokens_out=34, cached_calls=2, retries=1, searches=1)
    rows = ended(outcome=Outcome.ABSTAINED, answer=None, usage=usage, seconds=4.26)
    assert mentions(rows["cost"][0], "1,234 tokens", "1,200 in", "34 out", "3 calls, 2 of", "recorded earlier")
    assert mentions(rows["cost"][0], "recorded earlier", "1 retry", "1 search", "4.3 s")
    assert (rows["answer"], rows["confidence"], rows["read"]) == (("none",), ("unknown",), ("nothing",))
