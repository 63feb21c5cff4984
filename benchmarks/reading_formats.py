"""Processor time and memory of reading each format, beside the bare library on the same file.

    python -m benchmarks.reading_formats --out docs/results/reading_formats.json

A file of each format is written, with about 400,000 words or cells. Each is read in a fresh process: once by the bare
library, which throws away what it reads, and once by the reader here, which cuts passages with their places.
"""

# ruff: noqa: PLC0415 - each side imports only what it reads with
from __future__ import annotations

import argparse
import csv
import email
import email.policy
import json
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable
from email.message import EmailMessage
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from beliefrag.retrieval.documents import CorpusFile, cut_document, read_file

_SENTENCE = "The harbour office counts boats at the northern quay every morning before nine."
_PARAGRAPHS = 8_000
_PER_PART = 20
_ROWS = 20_000


def write_files(folder: Path) -> list[Path]:
    """Write a file of each format."""
    import docx
    import xlsxwriter
    from pptx import Presentation

    texts = [f"{_SENTENCE} Day {number}. {_SENTENCE} Two. {_SENTENCE}" for number in range(_PARAGRAPHS)]
    parts = [texts[at : at + _PER_PART] for at in range(0, len(texts), _PER_PART)]
    (folder / "a.txt").write_text("\n\n".join(texts))
    (folder / "a.md").write_text("\n\n".join(f"## Part {at}\n\n" + "\n\n".join(part) for at, part in enumerate(parts)))
    pages = [
        f"<h2>Part {at}</h2>" + "".join(f"<p>{each} <a href='b.html'>b</a></p>" for each in part)
        for at, part in enumerate(parts)
    ]
    (folder / "a.html").write_text(f"<html><body>{''.join(pages)}</body></html>")
    (folder / "a.rtf").write_text("{\\rtf1\\ansi " + "\\par\n".join(texts[: _PARAGRAPHS // 40]) + "}")
    rows = [[f"bolt {number}", number, "northern quay", 2 * number] for number in range(_ROWS)]
    out = StringIO()
    csv.writer(out).writerows([["item", "count", "place", "price"], *rows])
    (folder / "a.csv").write_text(out.getvalue())
    (folder / "a.jsonl").write_text(
        "".join(json.dumps({"id": at, "text": each}) + "\n" for at, each in enumerate(texts))
    )
    word, slides = docx.Document(), Presentation()
    for at, part in enumerate(parts[: len(parts) // 4]):
        word.add_heading(f"Part {at}", 1)
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = f"Part {at}", "\n".join(part)
        for text in part:
            word.add_paragraph(text)
    word.save(str(folder / "a.docx"))
    slides.save(str(folder / "a.pptx"))
    with xlsxwriter.Workbook(folder / "a.xlsx") as book:
        sheet = book.add_worksheet("Stock")
        for number, row in enumerate([["item", "count", "place", "price"], *rows]):
            sheet.write_row(number, 0, row)
    names = "".join(f' xmlns:{each}="urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"' for each in ("office", "text"))
    with zipfile.ZipFile(folder / "a.odt", "w", zipfile.ZIP_DEFLATED) as archive:
        body = "".join(f"<text:p>{each}</text:p>" for each in texts)
        content = f"<office:body><office:text>{body}</office:text></office:body>"
        archive.writestr("content.xml", f"<office:document-content{names}>{content}</office:document-content>")
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "Boats", "Ann <ann@example.org>"
    mail.set_content("\n\n".join(texts))
    (folder / "a.eml").write_bytes(bytes(mail))
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "a.txt", "a.txt")
    (folder / "a.pdf").write_bytes(_write_pdf(parts))
    return sorted(folder.iterdir())


def _write_pdf(parts: Iterable[list[str]]) -> bytes:
    pages = [" ".join(f"({line[:90]}) Tj T*" for each in part for line in (each, each[90:180])) for part in parts]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number, shown in enumerate(pages):
        stream = f"BT /F1 9 Tf 11 TL 72 720 Td {shown} ET"
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        about = f"/Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R"
        objects.append(f"<< /Type /Page {about} {resources} >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    body = "".join(f"{number} 0 obj\n{each}\nendobj\n" for number, each in enumerate(objects, 1))
    return f"%PDF-1.4\n{body}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\n%%EOF\n".encode()


def _read_pdf(path: Path) -> None:
    import pypdfium2

    for page in pypdfium2.PdfDocument(path):
        page.get_textpage().get_text_bounded()


def _read_sheets(path: Path) -> None:
    from python_calamine import CalamineWorkbook

    with CalamineWorkbook.from_path(path) as book:
        for name in book.sheet_names:
            book.get_sheet_by_name(name).to_python()


def _read_word(path: Path) -> None:
    import docx

    for paragraph in docx.Document(str(path)).paragraphs:
        _ = paragraph.text, paragraph.style


def _read_slides(path: Path) -> None:
    from pptx import Presentation

    for slide in Presentation(str(path)).slides:
        for shape in slide.shapes:
            _ = shape.has_text_frame and shape.text_frame.text


def _read_html(path: Path) -> None:
    from lxml import html  # type: ignore[import-untyped]

    html.fromstring(path.read_bytes()).text_content()


def _read_open_document(path: Path) -> None:
    from lxml import etree

    with zipfile.ZipFile(path) as parts:
        "".join(etree.fromstring(parts.read("content.xml")).itertext())


def _read_markdown(path: Path) -> None:
    from markdown_it import MarkdownIt

    MarkdownIt().parse(path.read_text())


def _read_rtf(path: Path) -> None:
    from striprtf.striprtf import rtf_to_text

    rtf_to_text(path.read_text())  # type: ignore[no-untyped-call]


def _read_mail(path: Path) -> None:
    message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    body = message.get_body(("plain",))
    assert body is not None
    body.get_content()


def _read_zip(path: Path) -> None:
    with zipfile.ZipFile(path) as parts:
        for name in parts.namelist():
            parts.read(name).decode()


BARE: dict[str, tuple[str, Callable[[Path], object]]] = {
    ".csv": ("csv", lambda path: list(csv.reader(path.open()))),
    ".docx": ("python-docx", _read_word),
    ".eml": ("email", _read_mail),
    ".html": ("lxml", _read_html),
    ".jsonl": ("json", lambda path: [json.loads(line) for line in path.open()]),
    ".md": ("markdown-it-py", _read_markdown),
    ".odt": ("lxml", _read_open_document),
    ".pdf": ("pypdfium2", _read_pdf),
    ".pptx": ("python-pptx", _read_slides),
    ".rtf": ("striprtf", _read_rtf),
    ".txt": ("str.decode", lambda path: path.read_bytes().decode()),
    ".xlsx": ("python-calamine", _read_sheets),
    ".zip": ("zipfile", _read_zip),
}


def read_one(path: Path, side: str) -> dict[str, float]:
    """Read a file in this process, and return processor seconds with the import, memory, and passages."""
    passages = 0
    began = time.process_time()
    if side == "bare":
        BARE[path.suffix][1](path)
    else:
        with path.open("rb") as content:
            for document in read_file(CorpusFile(path.name, str(path), content)):
                passages += sum(1 for _ in cut_document(document))
    # The peak of getrusage() is at least that of the process which started this one.
    (peak,) = re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    return {"seconds": round(time.process_time() - began, 2), "mb": int(peak) // 1024, "passages": passages}


def main() -> None:
    """Measure all formats and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("FILE", "SIDE"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(read_one(Path(given.one[0]), given.one[1])))
        return
    rows = []
    with TemporaryDirectory() as folder:
        for path in write_files(Path(folder)):
            row: dict[str, object] = {"format": path.suffix, "kb": path.stat().st_size // 1024}
            for side in ("bare", "reader"):
                command = [sys.executable, "-m", "benchmarks.reading_formats", "--one", str(path), side]
                runs = [json.loads(subprocess.check_output(command)) for _ in range(given.runs)]
                row[side] = min(runs, key=lambda run: run["seconds"])
            rows.append(row | {"library": BARE[path.suffix][0]})
            print(json.dumps(rows[-1]), flush=True)
    if given.out:
        given.out.write_text(json.dumps({"runs": given.runs, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
