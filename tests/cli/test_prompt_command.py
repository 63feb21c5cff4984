"""`beliefrag prompt`: the words that models are asked with, and their hashes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from beliefrag.prompts import NAMES, Prompts
from tests.cli.shell import Ran, on_terminal

Command = Callable[..., Ran]


def test_the_list_has_every_prompt_with_its_hash(beliefrag: Command) -> None:
    rows = [line.split("\t") for line in beliefrag("prompt").out.splitlines()[1:]]
    assert [row[0] for row in rows] == list(NAMES)
    assert {name: digest for name, digest, _ in rows} == Prompts.load().hashes()
    assert {row[2] for row in rows} == {"ours"}


def test_one_prompt_can_be_saved_changed_and_used(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("prompt", "answer")
    shipped = Prompts.load()
    assert ran.out == shipped.templates["answer"] + "\n"
    assert ran.err == f"answer {shipped.hashes()['answer']}\n"
    folder = home / "words"
    folder.mkdir()
    (folder / "answer.txt").write_text(ran.out)
    assert Prompts.load(folder).hashes() == shipped.hashes()
    (folder / "answer.txt").write_text(ran.out + "Be brief.\n")
    rows = [line.split("\t") for line in beliefrag("prompt", "--set", f"prompts={folder}").out.splitlines()[1:]]
    assert [name for name, _, whose in rows if whose == "replaced"] == ["answer"]
    assert beliefrag("prompt", "answer", "--set", f"prompts={folder}").out.endswith("Be brief.\n")


def test_a_prompt_that_does_not_exist(beliefrag: Command) -> None:
    ran = beliefrag("prompt", "poem")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown prompt 'poem'" in ran.err
    assert "rewriter" in ran.err


def test_a_terminal_does_not_obey_a_prompt(home: Path) -> None:
    (home / "words").mkdir()
    (home / "words" / "rewriter.txt").write_text("{question} \x1b]0;owned\x07")
    code, screen = on_terminal("prompt", "rewriter", "--set", f"prompts={home / 'words'}")
    assert code == 0
    assert "\x1b" not in screen
