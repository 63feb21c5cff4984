"""The time of a reader grows with its input, also with one that is made to slow it down."""

from __future__ import annotations

import time
from collections.abc import Callable
from io import BytesIO
from itertools import cycle, islice

import pytest

from beliefrag.retrieval.documents import CorpusFile, Unreadable, cut_document, read_file
from beliefrag.retrieval.indexing import Skipped, find_unread


def read_seconds(name: str, data: bytes) -> float:
    file = CorpusFile(name, name, BytesIO(data))
    began = time.process_time()
    for document in read_file(file):
        list(cut_document(document))
    return time.process_time() - began


def write_headings(count: int) -> bytes:
    return "\n".join(f"{'#' * level} h{level}\nword" for level in islice(cycle((1, 3, 2, 6, 4)), count)).encode()


@pytest.mark.parametrize(
    ("name", "write", "size"),
    [
        ("marks.txt", lambda n: ("a" + "\u0301\u0323" * n).encode(), 50_000),
        ("titles.jsonl", lambda n: b'{"text": "words", "title": "a%s"}' % ("\u0323\u0301" * n).encode(), 50_000),
        ("links.md", lambda n: b'[a](b "' * n, 3_000),
        ("headings.md", write_headings, 3_000),
        ("headings.html", lambda n: b"".join(b"<h%d>h</h%d>word" % (1 + k % 6, 1 + k % 6) for k in range(n)), 3_000),
    ],
)
def test_four_times_the_input_takes_no_sixteen_times_as_long(
    name: str, write: Callable[[int], bytes], size: int
) -> None:
    short, long = (min(read_seconds(name, write(many)) for _ in range(3)) for many in (size, 4 * size))
    assert long < 9 * short + 0.05, (short, long)


def test_a_declared_encoding_that_is_none_is_not_used() -> None:
    file = CorpusFile("a.html", "a.html", BytesIO(b'<meta charset="punycode"><p>caf\xe9 ' + b"x-" * 20_000))
    [document, *_] = read_file(file)
    assert "café" in document.text


def test_a_question_about_a_file_that_was_not_read_is_recognized() -> None:
    skipped = [Skipped(f"/docs/{name}", "is encrypted") for name in ("Budget_2024.xlsx", "minutes.pdf", "a.pdf")]
    assert list(find_unread("What was the budget for 2024?", skipped)) == skipped[:1]
    assert not list(find_unread("Who approves travel?", skipped))


def test_an_rtf_file_in_name_only_is_refused() -> None:
    with pytest.raises(Unreadable):
        list(read_file(CorpusFile("a.rtf", "a.rtf", BytesIO(b"plain words"))))
