"""A made-up benchmark in the common form, with passages as long as HotpotQA's: the same one everywhere, of any size."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["PASSAGES", "name_of", "write_dataset"]

PASSAGES = 4_000
_NAME = "harbours"
_WORDS = 85
_SYLLABLES = ("ka", "lo", "mer", "tin", "sø", "ra", "vel", "dun", "is", "pá", "gor", "neth", "ul", "bri", "an", "fjo")


def name_of(number: int) -> str:
    """Return the name of harbour `number`: a query for it finds its passage, and those that mention it."""
    return f"Port {_word(number % PASSAGES)}"


def write_dataset(folder: Path, questions: int, passages: int = PASSAGES) -> Path:
    """Write so many questions and the passages to search, and return the folder.

    Question k asks where the founder of harbour k was born. Each harbour's passage names the next harbour, so searches
    lead on. A third of the words are not all ASCII, more than in real passages: such text is slower to handle.
    """
    home = folder / _NAME
    home.mkdir(parents=True)
    dice = random.Random(0)
    _lines(home / "corpus.jsonl", (_passage(number, dice) for number in range(passages)))
    _lines(home / "questions.jsonl", (_question(number, passages) for number in range(questions)))
    return home


def _passage(number: int, dice: random.Random) -> dict[str, Any]:
    filler = " ".join(_word(dice.randrange(PASSAGES * 4)) for _ in range(_WORDS))
    text = f"{name_of(number)} was founded by a captain from {name_of(number + 1)}, [{number}] and {filler}."
    return {"id": f"p{number}", "title": name_of(number), "text": text}


def _question(number: int, passages: int) -> dict[str, Any]:
    # Beyond the number of passages a question asks the same in other words, so that no two requests are equal.
    text = f"Where was the founder of {name_of(number)} born (question {number})?"
    supporting = [f"p{number % passages}"]
    return {"id": f"q{number}", "question": text, "answers": [name_of(number + 1)], "supporting": supporting}


def _word(number: int) -> str:
    parts = []
    for _ in range(4):
        number, place = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[place])
    return "".join(parts)


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
