"""Every reader of a reply takes time in proportion to the reply, and raises no error but our own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from beliefrag.errors import BeliefRAGError
from benchmarks.fuzz_replies import READERS, VERDICT, fuzz, make_texts

TEXTS = 10_000
TRIES = 3
GROWTH = 4
MOST = 2 * GROWTH
"""How much longer a text of four times the length may take. Reading in quadratic time takes sixteen times as long."""

# Each takes a number and gives a text whose length grows in proportion to it.
GROWING: dict[str, Callable[[int], str]] = {
    "white space first": lambda n: "\n" * n + "Paris",
    "spaces and no end": lambda n: " " * n,
    "opened thoughts": lambda n: "<think>" * n,
    "closed thoughts": lambda n: "<think></think>" * n,
    "thought that never ends": lambda n: "<think>" + "a " * n,
    "fence with white space": lambda n: "```\n" + "\n " * n + "x```x",
    "fences": lambda n: "```json\n" * n,
    "opening braces": lambda n: "{" * n,
    "opening braces with keys": lambda n: '{"' * n,
    "opening braces with space": lambda n: "{ " * n + '"',
    "broken objects": lambda n: (VERDICT[:-1] + ",,}") * (n // 10),
    "nested broken objects": lambda n: '{"a":' * (n // 50) + "[1" + ",1" * n,
    "unclosed string": lambda n: '{"a' * 40 + "b" * n + "}",
    "escaped quotes": lambda n: '{"a' + '\\"{' * n + "}",
    "searches": lambda n: "<search>" * n,
    "search that never ends": lambda n: "<search>" + "</ search" * n,
    "labels": lambda n: "the " + "\t" * n + "final" + " " * n + "answer" + " " * n,
    "conclusions": lambda n: "answer  " * n,
    "stops": lambda n: ". " * n,
    "repeated words": lambda n: "a " * n + "b.",
    "one long word": lambda n: "a" * n,
    "slots": lambda n: '"1": "yes", ' * (n // 4),
    "slot with white space": lambda n: '"1":' + " " * n,
    "marks": lambda n: "[A" * n,
    "quotes": lambda n: '"' * n,
}


def seconds(read: Callable[[str], Any], text: str) -> float:
    """Return the processor's time for one reading: another process on the machine does not change it."""
    began = time.process_time()
    with contextlib.suppress(BeliefRAGError):
        read(text)
    return time.process_time() - began


def ratio(read: Callable[[str], Any], make: Callable[[int], str], size: int) -> float:
    small, large = make(size), make(GROWTH * size)
    base = min(seconds(read, small) for _ in range(TRIES))
    # Below this the clock and the start of a call are what is measured.
    return min(seconds(read, large) for _ in range(TRIES)) / max(base, 2e-4)


@pytest.mark.parametrize("kind", GROWING)
def test_reading_takes_time_in_proportion_to_the_reply(kind: str) -> None:
    slow = {}
    for name, read in READERS.items():
        # A second look at what seems slow: a garbage collection in the middle is not the reader's fault.
        found = ratio(read, GROWING[kind], 1_500)
        if found > MOST:
            found = min(found, ratio(read, GROWING[kind], 3_000))
        if found > MOST:
            slow[name] = found
    assert not slow


def test_whatever_a_model_writes_is_read_or_refused() -> None:
    outcome = fuzz(make_texts(TEXTS, seed=17))
    assert [(name, ascii(text), what) for name, text, what in outcome.faults] == []
    # The texts are near enough to real ones that every reader reads some.
    assert min(outcome.read[name] for name in READERS) >= 25
