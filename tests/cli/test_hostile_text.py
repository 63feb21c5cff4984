"""Text that others wrote is shown, never obeyed: not by rich, and not by the terminal."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from beliefrag.cli.live import LiveDisplay
from beliefrag.cli.output import safe_line, safe_lines
from beliefrag.record import AnswerText, CallStarted, Episode, Outcome, Search, Step
from beliefrag.types import Action, Budget, Passage, Question
from tests.cli.shell import BORROWED, SURE, Ran, on_terminal, write_script

Command = Callable[..., Ran]

LINK = "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\"
TITLE = "\x1b]0;owned\x07"
CLEAR = "\x1b[2J\x1b[H"
C1 = "\x9b2J"
BIDI = "\u202egnp.exe\u2066"
MARKUP = "[bold red]loud[/] [link=http://evil.example]here[/link] :smile: [/nonsense]"
HOSTILE = f"{LINK}{TITLE}{CLEAR}{C1}{BIDI}{MARKUP}\r\nerror: forged line\x00\b\b"

OURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""The sequences that rich itself sends: colours and cursor movements."""


def expect_harmless(text: str) -> None:
    # Of the control sequences, none may have come from the text: rich sends no OSC, and never clears the screen.
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert "[bold red]loud[/] [link=http://evil.example]here[/link] :smile: [/nonsense]" in " ".join(
        OURS.sub("", text).split()
    )
    rest = OURS.sub("", text)
    assert not re.search("[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", rest)
    assert not any(line.startswith("error: forged") for line in rest.splitlines())


@given(st.text())
def test_what_is_shown_is_one_printable_line(text: str) -> None:
    line = safe_line(text)
    assert all(character.isprintable() or character in "\u200c\u200d" for character in line)
    assert line == line.strip()
    assert safe_line(line) == line


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert safe_line(text) == text


def test_letters_of_the_world_survive() -> None:
    for text in ("Théophile Seyrig", "می‌خواهم", "👩‍🚀", "東京", "שלום", "ﬁ ½ €"):
        assert safe_line(text) == text


def test_several_lines_keep_their_shape() -> None:
    assert safe_lines("a\n\tb\x1b[1m \n\nc") == "a\n    b\N{REPLACEMENT CHARACTER}[1m\n\nc"


def hostile_corpus(home: Path) -> Path:
    docs = home / "docs"
    docs.mkdir()
    row = {"id": "p", "title": f"Fram {HOSTILE}", "text": f"The Fram. {HOSTILE}"}
    (docs / f"evil {LINK.replace('/', '-')}{MARKUP.replace('/', '-')}.jsonl").write_text(json.dumps(row))
    return docs


def hostile_model(home: Path) -> str:
    return write_script(
        home, SURE | {"repeat": True}, {"purpose": "answer", "reply": f"Larvik {HOSTILE}"} | {"repeat": True}
    )


def test_plain_lines_obey_nothing(beliefrag: Command, home: Path) -> None:
    given = ("ask", f"Fram? {HOSTILE}", "--docs", hostile_corpus(home), "--model", hostile_model(home), *BORROWED)
    ran = beliefrag(*given)
    assert ran.code == 0
    expect_harmless(ran.out)
    expect_harmless(beliefrag(*given, "--quiet").out)
    as_json = beliefrag(*given, "--json")
    assert as_json.out.isascii()
    assert as_json.out.strip().isprintable()
    assert as_json.record["question"]["text"] == f"Fram? {HOSTILE}"


def test_a_terminal_obeys_nothing(home: Path) -> None:
    question = f"Fram? {HOSTILE}".replace("\x00", "")
    code, screen = on_terminal(
        *("ask", question, "--docs", hostile_corpus(home), "--model", hostile_model(home), *BORROWED), columns=4000
    )
    assert code == 0
    expect_harmless(screen)
    assert "Larvik" in screen


def test_an_error_message_obeys_nothing(beliefrag: Command, home: Path) -> None:
    model = write_script(home, {"purpose": "verifier", "error": {"status": 400, "message": HOSTILE}})
    ran = beliefrag("ask", "Fram?", "--docs", hostile_corpus(home), "--model", model, *BORROWED, "--quiet")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    expect_harmless(ran.err)
    assert beliefrag("ask", "Fram?", "--docs", f"no {HOSTILE}".replace("\x00", "")).err.count("\n") == 1


def test_an_index_report_obeys_nothing(beliefrag: Command, home: Path) -> None:
    docs = hostile_corpus(home)
    (docs / f"bad {LINK.replace('/', '-')}{MARKUP.replace('/', '-')}.pdf").write_bytes(b"%PDF-nonsense")
    ran = beliefrag("index", docs, "--out", home / "out")
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    assert "[bold red]loud" in ran.out


def test_the_live_display_obeys_nothing() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=4000, markup=False, emoji=False, highlight=False)
    text = HOSTILE * 3
    passage = Passage("p", text, text, text)
    begun = Episode(method="m", question=Question(text), model=text, verifier=text, budget=Budget())
    search = Search(query=text, hits=(("p", 1.0),), added=("p",))
    found = Step(number=0, action=Action.RETRIEVE, reason=text, search=search, passages={"p": passage})
    rewritten = Step(number=1, action=Action.REWRITE, reason=text, rewritten=text)
    update = {"outcome": Outcome.ANSWERED, "answer": text, "sources": ("p",), "steps": (found, rewritten)}
    writing = AnswerText(at=0, text=text)
    with LiveDisplay(console, calibration=text, steps=True) as display:
        for progress in (begun, CallStarted(purpose=text), found, rewritten, writing, begun.model_copy(update=update)):
            display.show(progress)
    expect_harmless(file.getvalue())
