from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.retrieval.documents import Document, Unreadable, cut_document

Read = Callable[[Path], tuple[list[Document], list[str]]]

WORDS = "Zürich – naïve café “quoted”"


@pytest.mark.parametrize(
    "data",
    [
        WORDS.encode(),
        codecs.BOM_UTF8 + WORDS.encode(),
        codecs.BOM_UTF16_LE + WORDS.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + WORDS.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + WORDS.encode("utf-32-le"),
        WORDS.encode("cp1252"),
        "Zu\u0308rich – nai\u0308ve cafe\u0301 “quoted”".encode(),
    ],
    ids=["utf-8", "utf-8 mark", "utf-16 le", "utf-16 be", "utf-32", "cp1252", "decomposed"],
)
def test_text_is_read_in_common_encodings(tmp_path: Path, read: Read, data: bytes) -> None:
    (tmp_path / "note.txt").write_bytes(data)
    [document], complaints = read(tmp_path / "note.txt")
    assert (document.text, document.title, complaints) == (WORDS, "note", [])


def test_one_damaged_byte_does_not_turn_the_whole_text_into_another_encoding(tmp_path: Path, read: Read) -> None:
    (tmp_path / "note.txt").write_bytes(WORDS.encode() + b" dam\xe9ged " + WORDS.encode())
    [document], _ = read(tmp_path / "note.txt")
    assert document.text == f"{WORDS} dam\ufffdged {WORDS}"


@pytest.mark.parametrize(
    "data", [b"\x7fELF\x02\x01\x01\x00\x00", bytes(range(1, 256)) * 4, "no mark".encode("utf-16-le"), b"abc\x00def"]
)
def test_binary_is_refused(tmp_path: Path, read: Read, data: bytes) -> None:
    (tmp_path / "note.txt").write_bytes(data)
    with pytest.raises(Unreadable, match="is binary"):
        read(tmp_path / "note.txt")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.pdf", "a.docx", "a.csv"])
@pytest.mark.parametrize("data", [b"", b" \n\t"])
def test_an_empty_file_is_refused(tmp_path: Path, read: Read, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(Unreadable, match="is empty"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Some words.\n\n## The *first* heading ##\n\n# Later", "The *first* heading"),
        ("```\n# a comment in code\n```\n# Real", "Real"),
        ("~~~\n```\n# still code\n~~~\nUnderlined\n======\n", "Underlined"),
        ('---\ntitle: "From the top"\ntags: [a]\n---\n# Heading\n', "From the top"),
        ("---\ntags: [a]\n---\n# Heading\n", "Heading"),
        ("No heading, #hashtag only\n#\n", "notes"),
        ("Text\n\n---\n\nmore", "notes"),
    ],
)
def test_the_title_of_markdown_is_its_first_heading(tmp_path: Path, read: Read, text: str, title: str) -> None:
    (tmp_path / "notes.md").write_text(text)
    [document], _ = read(tmp_path / "notes.md")
    assert document.title == title


def lines_of(path: Path, read: Read) -> list[tuple[str, str]]:
    """Return the first word and the place of each passage of a file."""
    cut = [passage for document in read(path)[0] for passage in cut_document(document)]
    return [(passage.text.split()[0], passage.place) for passage in cut]


def test_passages_of_a_text_say_in_which_lines_they_stand(tmp_path: Path, read: Read) -> None:
    words = " ".join(f"word{n}" for n in range(70))
    (tmp_path / "note.txt").write_text(f"\nAlpha {words}\n\nBeta {words}\nand on.\n\n\nGamma {words}\n")
    assert lines_of(tmp_path / "note.txt", read) == [("Alpha", "line 2"), ("Beta", "lines 4-5"), ("Gamma", "line 8")]


def test_lines_of_markdown_count_front_matter_and_headings(tmp_path: Path, read: Read) -> None:
    words = " ".join(f"word{n}" for n in range(70))
    (tmp_path / "a.md").write_text(
        f"---\ntitle: T\n---\n# One\n\nAlpha {words}\n\nTwo\n---\n\nBeta {words}\n```\n# code\n```\n"
    )
    assert lines_of(tmp_path / "a.md", read) == [("Alpha", "line 6"), ("Beta", "lines 11-14")]
    (tmp_path / "b.md").write_text("# Short\n\nOnly one\nline or two.\n")
    assert lines_of(tmp_path / "b.md", read) == [("#", "lines 3-4")]


def test_the_first_entry_may_stand_right_below_its_heading(tmp_path: Path, read: Read) -> None:
    words = " ".join(f"word{n}" for n in range(70))
    (tmp_path / "a.5.txt").write_text(
        "NAME\n       a - first\n\n"
        f"OPTIONS\n       KillMode=\n           Alpha {words}\n\n       Other=\n           Beta {words}\n"
    )
    documents, _ = read(tmp_path / "a.5.txt")
    assert [document.title for document in documents][-2:] == ["a.5 > OPTIONS > KillMode=", "a.5 > OPTIONS > Other="]
