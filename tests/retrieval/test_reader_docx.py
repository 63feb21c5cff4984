from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import pytest

from beliefrag.retrieval.documents import Document, Unreadable

Read = Callable[[Path], tuple[list[Document], list[str]]]


def word_file(path: Path, *, title: str = "") -> Path:
    document = docx.Document()
    document.core_properties.title = title
    document.add_paragraph("Before everything.")
    document.add_heading("The heading", 1)
    table = document.add_table(rows=2, cols=3)
    for row, values in zip(table.rows, [["Name", "Age", "City"], ["Ada", "36", "London"]], strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    table.rows[0].cells[1].merge(table.rows[0].cells[2])
    document.add_paragraph("After the table.")
    document.save(str(path))
    return path


def test_paragraphs_and_tables_are_read_in_their_order(tmp_path: Path, read: Read) -> None:
    [document], complaints = read(word_file(tmp_path / "letter.docx", title="A letter"))
    assert document.title == "A letter"
    blocks = document.text.split("\n\n")
    assert blocks == ["Before everything.", "The heading", "Name | Age City", "Ada | 36 | London", "After the table."]
    assert complaints == []


def test_without_a_title_the_first_heading_and_then_the_name_stand_in(tmp_path: Path, read: Read) -> None:
    assert read(word_file(tmp_path / "letter.docx"))[0][0].title == "The heading"
    plain = docx.Document()
    plain.add_paragraph("Text.")
    plain.core_properties.title = ""
    plain.save(str(tmp_path / "plain.docx"))
    assert read(tmp_path / "plain.docx")[0][0].title == "plain"


def test_broken_locked_and_empty_files_are_refused(tmp_path: Path, read: Read) -> None:
    whole = word_file(tmp_path / "letter.docx").read_bytes()
    (tmp_path / "cut.docx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.docx").write_bytes(b"just text")
    with zipfile.ZipFile(tmp_path / "other.docx", "w") as parts:
        parts.writestr("readme.txt", "a zip, but no document")
    for name in ("cut", "text", "other"):
        with pytest.raises(Unreadable, match=r"broken.*docx"):
            read(tmp_path / f"{name}.docx")
    (tmp_path / "locked.docx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(Unreadable, match=r"encrypted.*\.docx"):
        read(tmp_path / "locked.docx")
    empty = docx.Document()
    empty.save(str(tmp_path / "empty.docx"))
    assert [each.text for each in read(tmp_path / "empty.docx")[0]] == [""]


def test_declared_entities_in_a_docx_are_not_expanded(tmp_path: Path, read: Read) -> None:
    (tmp_path / "secret.txt").write_text("the secret")
    whole = word_file(tmp_path / "letter.docx")
    with zipfile.ZipFile(whole) as parts, zipfile.ZipFile(tmp_path / "evil.docx", "w") as evil:
        for part in parts.infolist():
            data = parts.read(part)
            if part.filename == "word/document.xml":
                declared = f'<!DOCTYPE d [<!ENTITY x SYSTEM "file://{tmp_path}/secret.txt">]>'.encode()
                head, _, body = data.partition(b"?>")
                data = head + b"?>" + declared + body.replace(b"Before everything.", b"Before &x; everything.")
            evil.writestr(part, data)
    try:
        [document], _ = read(tmp_path / "evil.docx")
    except Unreadable:
        return
    assert "the secret" not in document.text
