from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beliefrag.retrieval.documents import printable_path


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"/docs/plain name.txt", "/docs/plain name.txt"),
        ("/docs/Zürich 漢.txt".encode(), "/docs/Zürich 漢.txt"),
        (b"/docs/\xff\xfe.txt", "/docs/\\xff\\xfe.txt"),
        (b"/docs/line\nbreak", "/docs/line\\u000abreak"),
        (b"/docs/\x1b[31mred", "/docs/\\u001b[31mred"),
        (b"/docs/back\\slash", "/docs/back\\\\slash"),
    ],
)
def test_any_name_can_be_shown(name: bytes, shown: str) -> None:
    assert printable_path(os.fsdecode(name)) == shown


@given(st.binary(min_size=1, max_size=30), st.binary(min_size=1, max_size=30))
def test_two_names_never_look_the_same(one: bytes, other: bytes) -> None:
    first, second = printable_path(os.fsdecode(one)), printable_path(os.fsdecode(other))
    assert (first == second) == (one == other)
    assert first.isprintable()
    first.encode()
