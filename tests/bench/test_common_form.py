"""Importing into the common form and loading it again: nothing lost, nothing changed unseen."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from beliefrag.bench.datasets import find_format, import_dataset, load_dataset, load_passages
from beliefrag.bench.datasets.common_form import read_published_files
from beliefrag.runs.run_errors import DataError
from tests.bench.published import HOTPOT, MUSIQUE, RGB_FACT, lines


@pytest.mark.parametrize(("name", "record"), [("hotpotqa", HOTPOT), ("musique", MUSIQUE), ("rgb", RGB_FACT)])
def test_an_import_loads_as_what_it_was(tmp_path: Path, name: str, record: object) -> None:
    file = lines(tmp_path / "dev.json", record)
    card = import_dataset(name, [file], tmp_path / name)
    loaded, read = load_dataset(tmp_path / name), read_published_files(find_format(name), [file])
    assert loaded.passages == read.passages
    assert loaded.questions == read.questions
    assert loaded.card == card


def test_the_card_tells_what_is_there_and_whose_it_is(tmp_path: Path) -> None:
    card = import_dataset("rgb", [lines(tmp_path / "en_fact.json", RGB_FACT)], tmp_path / "rgb")
    assert (card.questions, card.passages, card.with_supporting, card.splits) == (1, 3, 1, {"fact": 1})
    assert card.licence == "CC BY-NC-SA 4.0 (non-commercial)"
    assert [record.name for record in card.inputs] == ["en_fact.json"]
    assert str(tmp_path) not in (tmp_path / "rgb" / "card.json").read_text()


def test_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    file = lines(tmp_path / "dev.jsonl", MUSIQUE)
    first, second = (import_dataset("musique", [file], tmp_path / name) for name in ("a", "b"))
    assert first.outputs == second.outputs
    # The header of a gzip file has room for a time; a second import would differ by it.
    assert (tmp_path / "a" / "corpus.jsonl.gz").read_bytes()[4:8] == bytes(4)
    for name in ("questions.jsonl.gz", "corpus.jsonl.gz", "card.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        import_dataset("musique", [lines(tmp_path / "dev.jsonl", MUSIQUE)], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_failed_import_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        import_dataset("musique", [lines(tmp_path / "dev.jsonl", {"id": "x"})], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["dev.jsonl"]


def test_a_corpus_can_be_added(tmp_path: Path) -> None:
    corpus = lines(tmp_path / "pool.jsonl", {"id": "w1", "title": "T", "text": "x"}, {"title": "U", "text": "y"})
    questions = lines(tmp_path / "NQ-open.dev.jsonl", {"question": "who", "answer": ["x"]})
    card = import_dataset("nq", [questions], tmp_path / "nq", corpus=corpus)
    loaded = load_dataset(tmp_path / "nq")
    assert [passage.id for passage in loaded.passages] == ["w1", load_passages(corpus)[1].id]
    assert [record.name for record in card.inputs] == ["NQ-open.dev.jsonl", "pool.jsonl"]


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    out = tmp_path / "musique"
    import_dataset("musique", [lines(tmp_path / "dev.jsonl", MUSIQUE)], out)
    content = gzip.decompress((out / "questions.jsonl.gz").read_bytes())
    (out / "questions.jsonl.gz").write_bytes(gzip.compress(content.replace(b"Stanley", b"Oslo")))
    with pytest.raises(DataError, match="card"):
        load_dataset(out)
    (out / "card.json").unlink()
    assert load_dataset(out).questions[0].gold.answers[0] == "Oslo"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"answers": []}, "no gold answer"),
        ({"answers": [None]}, "'answers'"),
        ({"question": " "}, "no question"),
        ({"supporting": 3}, "'supporting'"),
        ({"id": None}, "line 1: .*'id'"),
        ({"answer_groups": [[]]}, "'answer_groups'.*at least 1 item"),
    ],
)
def test_a_record_of_the_wrong_shape_is_refused(tmp_path: Path, record: dict[str, object], reason: str) -> None:
    good = {"id": "a", "question": "q", "answers": ["x"], "supporting": None}
    lines(tmp_path / "questions.jsonl", good | record)
    lines(tmp_path / "corpus.jsonl")
    with pytest.raises(DataError, match=reason):
        load_dataset(tmp_path)


def test_support_that_the_corpus_lacks_is_an_error(tmp_path: Path) -> None:
    lines(tmp_path / "questions.jsonl", {"id": "a", "question": "q", "answers": ["x"], "supporting": ["p1"]})
    lines(tmp_path / "corpus.jsonl", {"id": "p2", "title": "", "text": "t"})
    with pytest.raises(DataError, match=r"corpus.*'a'"):
        load_dataset(tmp_path)


def test_ids_that_occur_twice_are_an_error(tmp_path: Path) -> None:
    question = {"id": "a", "question": "q", "answers": ["x"], "supporting": None}
    lines(tmp_path / "questions.jsonl", question, question)
    lines(tmp_path / "corpus.jsonl")
    with pytest.raises(DataError, match=r"question .*'a' .*\b2 times"):
        load_dataset(tmp_path)


def test_what_is_no_dataset_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no questions\.jsonl.*beliefrag data import"):
        load_dataset(tmp_path)
    with pytest.raises(DataError, match=r"absent .*not a folder.*beliefrag data import"):
        load_dataset(tmp_path / "absent")


def test_splits_are_counted_and_taken(tmp_path: Path) -> None:
    files = [lines(tmp_path / f"{split}.json", HOTPOT | {"_id": split}) for split in ("train", "dev")]
    import_dataset("hotpotqa", files, tmp_path / "hotpotqa")
    dataset = load_dataset(tmp_path / "hotpotqa")
    assert dataset.splits() == {"dev": 1, "train": 1}
    assert [question.id for question in dataset.of_split("train").questions] == ["train"]
    with pytest.raises(DataError, match="no split 'test'"):
        dataset.of_split("test")
