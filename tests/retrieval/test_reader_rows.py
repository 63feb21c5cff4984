from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.retrieval.documents import Document, Unreadable
from tests.support.messages import mentions

Read = Callable[[Path], tuple[list[Document], list[str]]]


def test_json_lines_become_documents_with_their_own_ids(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '\ufeff{"id": "a", "title": "T", "text": "one"}\n\n{"id": 7, "text": "two", "x": [1]}\n{"text": "three"}'
    )
    documents, complaints = read(path)
    assert documents == [
        Document("a", "T", "one", str(path), own_id=True, place="line 1"),
        Document("7", "", "two", str(path), own_id=True, place="line 3"),
        Document("rows.jsonl", "", "three", str(path), place="line 4"),
    ]
    assert complaints == []


def test_a_broken_line_is_named_and_costs_only_itself(tmp_path: Path, read: Read) -> None:
    lines = [
        b'{"id": "a", "text": "one"}',
        b'{"id": "b", "text": "tw',
        b"[1, 2]",
        b'{"id": "c"}',
        b'{"id": "d", "text": "  "}',
        b'{"id": "e", "text": 5}',
        b'{"id": "f", "title": 5, "text": "x"}',
        b'{"id": true, "text": "x"}',
        b'{"id": "g\\n", "text": "x\\ny"}',
        b'{"id": "h\\ni", "text": "x"}',
        b'{"id": "j", "text": "caf\xe9"}',
        b"[" * 100_000,
        b'{"id": "z", "text": "last"}',
    ]
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    documents, complaints = read(tmp_path / "rows.jsonl")
    assert [document.id for document in documents] == ["a", "g", "z"]
    causes = {2: "JSON", 3: "JSON object", 4: "text", 5: "text", 6: "text", 7: "title", 8: "id", 10: "id"}
    causes |= {11: "JSON", 12: "JSON"}
    assert len(complaints) == len(causes)
    for complaint, (line, cause) in zip(complaints, causes.items(), strict=True):
        assert mentions(complaint, f"line {line}", cause)


def test_gzipped_lines_are_read_and_a_cut_file_gives_what_it_has(tmp_path: Path, read: Read) -> None:
    rows = [{"id": f"r{n}", "text": f"text {n} {'x' * (n % 50)}"} for n in range(2000)]
    whole = gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    (tmp_path / "rows.jsonl.gz").write_bytes(whole)
    documents, complaints = read(tmp_path / "rows.jsonl.gz")
    assert (len(documents), complaints) == (2000, [])
    (tmp_path / "rows.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    documents, [complaint] = read(tmp_path / "rows.jsonl.gz")
    assert 500 < len(documents) < 2000
    assert complaint.endswith(f"after line {len(documents)}")
    (tmp_path / "rows.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(Unreadable, match="broken gzip"):
        read(tmp_path / "rows.jsonl.gz")


def test_a_table_with_a_text_column_is_a_table_of_texts(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('ID,Title,note,Text\n1,"A, b",x,"first\nline"\n2,,y,second\n,,,\n3,T,z,\n4\n,U,,no id\n')
    documents, complaints = read(path)
    assert documents == [
        Document("1", "A, b", "first\nline", str(path), own_id=True, place="row 2"),
        Document("2", "", "second", str(path), own_id=True, place="row 3"),
        Document("rows.csv", "U", "no id", str(path), place="row 7"),
    ]
    assert complaints == ["line 6 has no text", "line 7 has no text"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_table_without_text_column_keeps_the_names_of_its_columns(tmp_path: Path, read: Read, delimiter: str) -> None:
    path = tmp_path / "people.csv"
    path.write_text(
        "\n".join(delimiter.join(row) for row in [["name", "", "city"], ["Ada", "x", "London", "extra"], ["Bo"]])
    )
    documents, complaints = read(path)
    assert [document.text for document in documents] == [
        "name: Ada; column 2: x; city: London; column 4: extra",
        "name: Bo",
    ]
    assert {(document.title, document.id, document.own_id) for document in documents} == {
        ("people", "people.csv", False)
    }
    assert complaints == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_table_is_read_in_common_encodings(tmp_path: Path, read: Read, encoding: str) -> None:
    (tmp_path / "a.csv").write_text("name,city\nZoé,Zürich\n", encoding=encoding)
    assert read(tmp_path / "a.csv")[0][0].text == "name: Zoé; city: Zürich"


def test_a_character_across_the_border_of_the_sample_does_not_change_the_encoding(tmp_path: Path, read: Read) -> None:
    rows = "name,city\n" + "é" * 40_000 + ",x\n"
    for shift in ("", "a"):
        (tmp_path / "a.csv").write_text(shift + rows, encoding="utf-8")
        assert "é" * 40_000 in read(tmp_path / "a.csv")[0][0].text


def test_a_quote_that_is_never_closed_is_reported(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beliefrag.retrieval.readers.rows._LONGEST_CELL", 200_000)
    csv.field_size_limit(200_000)
    (tmp_path / "a.csv").write_text('name,city\nAda,London\n"Bo,Paris\n' + "Cy,Rome\n" * 60_000)
    documents, [complaint] = read(tmp_path / "a.csv")
    assert [document.text for document in documents] == ["name: Ada; city: London"]
    assert "field limit" in complaint
