"""Each format of an office: its facts are found, and cited with their places."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from io import BytesIO
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pptx import Presentation
from pptx.util import Inches

from beliefrag.retrieval import Bm25Index, index_paths
from beliefrag.retrieval.documents import FORMATS, CorpusFile, Document, Unreadable, cut_document, read_file
from beliefrag.retrieval.readers import ocr
from beliefrag.types import Passage
from tests.support.formats import FACTS, write_office, write_scan

Read = Callable[[Path], tuple[list[Document], list[str]]]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("office")
    write_office(folder)
    return folder


def test_each_fact_is_found_and_cited_with_its_place(office: Path, tmp_path: Path) -> None:
    report = index_paths([office], tmp_path / "index")
    assert report.skipped == ()
    index = Bm25Index.open(tmp_path / "index")
    cited = {words: index.search(words, 1)[0].passage for words in FACTS}
    assert {words: (Path(at.source).name, at.place, at.title) for words, at in cited.items()} == FACTS
    assert "2023: 12; 2024: 14" in cited["north field yield"].text
    assert cited["bolt M4"].text == "Item: bolt M4; Count: 12; Counted: 2024-05-31"
    assert ("date", "2025-03-03") in cited["washer M9"].metadata


def test_a_scan_is_named_with_what_to_install(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ocr, "_open_engine", lambda: None)
    monkeypatch.setenv("PATH", "")
    for name in ("scan.pdf", "scan.png"):
        write_scan(tmp_path / name)
        with pytest.raises(Unreadable, match=r"picture.*beliefrag\[ocr\]"):
            read(tmp_path / name)


def test_the_text_of_a_scan_is_recognized_with_its_page(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr_onnxruntime", exc_type=ImportError)
    write_scan(tmp_path / "scan.pdf")
    index_paths([tmp_path / "scan.pdf"], tmp_path / "index")
    [hit] = Bm25Index.open(tmp_path / "index").search("bridge toll", 1)
    assert ("35 crowns" in hit.passage.text, hit.passage.place) == (True, "page 1")


def test_a_merged_cell_of_a_slide_counts_in_each_of_its_columns_and_rows(tmp_path: Path, read: Read) -> None:
    slides = Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    table = slide.shapes.add_table(4, 3, Inches(1), Inches(1), Inches(6), Inches(2)).table
    values = (("City", "Floor", "Desks"), ("Oslo", "", "19"), ("Turku", "first", "7"), ("", "second", "8"))
    for cell, value in zip(table.iter_cells(), chain(*values), strict=True):
        cell.text = value
    table.cell(1, 0).merge(table.cell(1, 1))
    table.cell(2, 0).merge(table.cell(3, 0))
    slides.save(str(tmp_path / "desks.pptx"))
    [document], _ = read(tmp_path / "desks.pptx")
    assert document.text.split("\n\n") == [
        "City: Oslo; Floor: Oslo; Desks: 19",
        "City: Turku; Floor: first; Desks: 7",
        "City: Turku; Floor: second; Desks: 8",
    ]


def test_archives_in_archives_are_read_to_a_depth(tmp_path: Path, read: Read) -> None:
    inner = b""
    for _ in range(8):
        out = BytesIO()
        with zipfile.ZipFile(out, "w") as parts:
            parts.writestr("a.txt", "Words.")
            parts.writestr("in.zip", inner)
        inner = out.getvalue()
    (tmp_path / "deep.zip").write_bytes(inner)
    documents, complaints = read(tmp_path / "deep.zip")
    assert documents[-1].inside == "in.zip, in.zip, in.zip, a.txt"
    assert "too many archives" in complaints[0]


ENDINGS = {ending: name for name in {name for name, _, _ in FACTS.values()} if (ending := Path(name).suffix) in FORMATS}


@pytest.mark.parametrize("ending", sorted(ENDINGS))
@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_gives_passages_or_a_reason(office: Path, ending: str, seed: int) -> None:
    """Bytes are changed, cut out, repeated and inserted; the worker turns any other error into a reason."""
    chance = random.Random(seed)
    data = bytearray((office / ENDINGS[ending]).read_bytes())
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                del data[at : at + chance.randint(1, 64)]
            case 2:
                data[at:at] = data[at : at + chance.randint(1, 256)]
            case 3:
                data[at:at] = chance.randbytes(chance.randint(1, 16))
    passages: list[Passage] = []
    file = CorpusFile(f"a{ending}", f"a{ending}", BytesIO(data))
    try:
        for document in read_file(file):
            passages.extend(cut_document(document))
    except Unreadable as problem:
        assert problem.message
    except Exception as problem:
        assert not isinstance(problem, MemoryError | AssertionError)
    assert all(passage.id.isprintable() and passage.text.encode() for passage in passages)
