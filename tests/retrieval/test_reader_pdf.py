from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from beliefrag.retrieval.documents import Document, Unreadable, cut_document

Read = Callable[[Path], tuple[list[Document], list[str]]]


def pdf_bytes(*pages: list[str], title: str = "") -> bytes:
    """Return a PDF written by hand, with one text line per string."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for n, lines in enumerate(pages):
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects.append(f"<< /Title ({title}) >>" if title else "<< >>")
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>"
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode()
    return data + f"trailer\n{trailer}\nstartxref\n{data.rindex(b'xref')}\n%%EOF\n".encode()


def encrypted(data: bytes, *, user: str, owner: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(BytesIO(data)))
    writer.encrypt(user_password=user, owner_password=owner, algorithm="RC4-128")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def test_all_pages_are_read_and_words_broken_at_a_line_end_are_joined(tmp_path: Path, read: Read) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf_bytes(["The light-", "house stood."], ["Page two."], title="A report"))
    [document], complaints = read(tmp_path / "report.pdf")
    assert document.title == "A report"
    assert document.text.split() == ["The", "lighthouse", "stood.", "Page", "two."]
    assert complaints == []


def test_a_passage_knows_its_pages(tmp_path: Path, read: Read) -> None:
    lines = [[f"Word{page} stands here on line {line} of this page." for line in range(9)] for page in range(4)]
    (tmp_path / "long.pdf").write_bytes(pdf_bytes(lines[0], [], *lines[1:]))
    [document], _ = read(tmp_path / "long.pdf")
    passages = list(cut_document(document))
    assert len(passages) > 2 and passages[0].place == "page 1" and passages[-1].place.endswith("5")
    for passage in passages:
        found = [int(number) for number in re.findall(r"\d+", passage.place)]
        # The second page is empty, so the words of page n are on page n + 2 from there on.
        words = {int(number) for number in re.findall(r"Word(\d)", passage.text)}
        assert found[0] <= min(number + 1 + (number > 0) for number in words)
        assert found[-1] == max(number + 1 + (number > 0) for number in words)


@pytest.mark.parametrize("title", ["", "untitled", "Microsoft Word - draft3.doc", "thesis.tex"])
def test_a_title_that_is_none_gives_way_to_the_name(tmp_path: Path, read: Read, title: str) -> None:
    (tmp_path / "report.pdf").write_bytes(pdf_bytes(["Text."], title=title))
    assert read(tmp_path / "report.pdf")[0][0].title == "report"


def test_an_encrypted_pdf_is_refused_unless_its_password_is_empty(tmp_path: Path, read: Read) -> None:
    plain = pdf_bytes(["Secret words."])
    (tmp_path / "locked.pdf").write_bytes(encrypted(plain, user="key", owner="key"))
    with pytest.raises(Unreadable, match=r"encrypted.*password"):
        read(tmp_path / "locked.pdf")
    (tmp_path / "open.pdf").write_bytes(encrypted(plain, user="", owner="key"))
    assert read(tmp_path / "open.pdf")[0][0].text.strip() == "Secret words."


@pytest.mark.parametrize("data", [b"%PDF-1.4\nnothing more", b"no pdf at all", b"%PDF-1.7\n" + bytes(range(256)) * 20])
def test_a_broken_pdf_is_refused(tmp_path: Path, read: Read, data: bytes) -> None:
    (tmp_path / "broken.pdf").write_bytes(data)
    with pytest.raises(Unreadable, match="broken pdf"):
        read(tmp_path / "broken.pdf")


def test_a_page_that_cannot_be_read_does_not_take_the_others_with_it(tmp_path: Path, read: Read) -> None:
    data = pdf_bytes(["First page."], ["Second page."])
    (tmp_path / "half.pdf").write_bytes(data.replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [4 0 R 9 0 R]"))
    [document], complaints = read(tmp_path / "half.pdf")
    assert document.text.strip() == "First page."
    assert len(complaints) == 1 and "page 2" in complaints[0]
