from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.errors import CorpusError
from beliefrag.retrieval import Bm25Index, IndexBusy, IndexWriter, PassageChange
from beliefrag.types import Passage


def ids(index: Bm25Index, query: str) -> list[str]:
    return [hit.passage.id for hit in index.search(query, 100)]


def test_what_is_added_can_be_searched_after_the_commit_and_not_before(tmp_path: Path, shelf: list[Passage]) -> None:
    with IndexWriter(tmp_path / "index") as writer:
        assert writer.add(shelf[:4]) == PassageChange(4, 0)
        assert len(Bm25Index.open(tmp_path / "index")) == 0
        writer.commit()
        opened = Bm25Index.open(tmp_path / "index")
        writer.add(shelf[4:])
    assert len(opened) == 4
    assert ids(opened, "electricity") == []
    again = Bm25Index.open(tmp_path / "index")
    assert again.get([p.id for p in shelf]) == shelf
    assert again.fingerprint == Bm25Index.in_memory(shelf).fingerprint


def test_a_passage_with_a_known_id_replaces_it_within_and_across_commits(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "index") as writer:
        writer.add([Passage("a", "", "one"), Passage("b", "", "other")])
        assert writer.add([Passage("a", "", "two")]) == PassageChange(1, 1)
        writer.commit()
        assert writer.add([Passage("a", "", "three"), Passage("a", "", "four")]) == PassageChange(2, 2)
    index = Bm25Index.open(tmp_path / "index")
    assert [ids(index, word) for word in ("one", "two", "three", "four")] == [[], [], [], ["a"]]
    assert index.fingerprint == Bm25Index.in_memory([Passage("a", "", "four"), Passage("b", "", "other")]).fingerprint


def test_an_exception_drops_what_was_not_committed(tmp_path: Path, shelf: list[Passage]) -> None:
    def failing() -> Iterator[Passage]:
        yield from shelf[5:]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"), IndexWriter(tmp_path / "index") as writer:
        writer.add(shelf[:5])
        writer.commit()
        writer.add(failing())
    assert Bm25Index.open(tmp_path / "index").fingerprint == Bm25Index.in_memory(shelf[:5]).fingerprint


def test_a_second_writer_is_refused_until_the_first_is_done(tmp_path: Path, shelf: list[Passage]) -> None:
    with IndexWriter(tmp_path / "index") as writer:
        writer.add(shelf)
        with pytest.raises(IndexBusy, match="another process"):
            IndexWriter(tmp_path / "index")
    with IndexWriter(tmp_path / "index") as writer:
        assert len(writer) == len(shelf)


def test_a_folder_with_something_else_in_it_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("important")
    with pytest.raises(CorpusError, match=r"thesis\.txt"):
        IndexWriter(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_source_holds_exactly_what_was_put_last(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "index") as writer:
        assert writer.put_source("f", [Passage("a", "", "one"), Passage("b", "", "two")]) == PassageChange(2, 0)
        writer.commit()
        assert writer.put_source("f", [Passage("b", "", "two"), Passage("c", "", "three")]) == PassageChange(1, 1)
        assert writer.put_source("f", [Passage("b", "", "new two")]) == PassageChange(1, 2)
        assert writer.put_source("g", [Passage("d", "", "four")]) == PassageChange(1, 0)
    index = Bm25Index.open(tmp_path / "index")
    assert index.get(["b", "d"]) == [Passage("b", "", "new two", "f"), Passage("d", "", "four", "g")]
    assert len(index) == 2
    with IndexWriter(tmp_path / "index") as writer:
        assert writer.put_source("f", []) == PassageChange(0, 1)
    assert Bm25Index.open(tmp_path / "index").fingerprint == Bm25Index.in_memory([Passage("d", "", "four")]).fingerprint


@pytest.mark.parametrize("commit_between", [False, True])
def test_a_passage_of_two_sources_is_stored_once_and_stays_until_both_are_gone(
    tmp_path: Path, commit_between: bool
) -> None:
    shared = Passage("a", "", "shared text")
    with IndexWriter(tmp_path / "index") as writer:
        writer.put_source("f", [shared])
        if commit_between:
            writer.commit()
        assert writer.put_source("g", [shared]) == PassageChange(0, 0)
        if commit_between:
            writer.commit()
        assert writer.put_source("g", []) == PassageChange(0, 0)
        writer.commit()
        assert Bm25Index.open(tmp_path / "index").get(["a"])[0].source == "f"
        assert writer.put_source("f", []) == PassageChange(0, 1)
        assert len(writer) == 0


@pytest.mark.parametrize("commit_between", [False, True])
def test_an_id_taken_by_other_content_gets_a_suffix_that_stays_the_same(tmp_path: Path, commit_between: bool) -> None:
    with IndexWriter(tmp_path / "index") as writer:
        writer.put_source("f", [Passage("1", "", "first of f"), Passage("1", "", "second of f")])
        if commit_between:
            writer.commit()
        writer.put_source("g", [Passage("1", "", "first of g")])
        before = writer.fingerprint
        assert writer.put_source(
            "f", [Passage("1", "", "first of f"), Passage("1", "", "second of f")]
        ) == PassageChange(0, 0)
        assert writer.put_source("g", [Passage("1", "", "first of g")]) == PassageChange(0, 0)
        assert writer.fingerprint == before
    index = Bm25Index.open(tmp_path / "index")
    assert len(index) == 3
    assert ids(index, "first")[0] == "1"
    assert all(own == "1" or (own.startswith("1~") and len(own) == 10) for own in ids(index, "first second"))


def test_after_compaction_scores_are_those_of_a_fresh_index(tmp_path: Path, shelf: list[Passage]) -> None:
    extra = [Passage(f"x{n}", "", "lighthouse lighthouse storm") for n in range(30)]
    with IndexWriter(tmp_path / "index") as writer:
        writer.add([*shelf, *extra])
    with IndexWriter(tmp_path / "index") as writer:
        writer.delete(passage.id for passage in extra)
        writer.commit()
        fresh = Bm25Index.in_memory(shelf)
        stale = Bm25Index.open(tmp_path / "index")
        assert stale.fingerprint == fresh.fingerprint
        assert [hit.score for hit in stale.search("lighthouse storm", 5)] != [
            hit.score for hit in fresh.search("lighthouse storm", 5)
        ]
        assert writer.compact()
        assert not writer.compact()
        writer.add([Passage("new", "", "added after the rewrite")])
    index = Bm25Index.open(tmp_path / "index")
    assert ids(index, "rewrite") == ["new"]
    with IndexWriter(tmp_path / "index") as writer:
        writer.delete(["new"])
        writer.compact()
    index = Bm25Index.open(tmp_path / "index")
    assert index.search("the lighthouse storm", 10) == fresh.search("the lighthouse storm", 10)
    assert len([item for item in (tmp_path / "index").iterdir() if item.is_dir()]) == 1
    assert stale.search("lighthouse", 1), "a reader of the old segments still works"


def test_opening_what_is_no_index_says_so(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(CorpusError, match="not a BeliefRAG index") as raised:
            Bm25Index.open(path)
        assert "beliefrag index" in raised.value.remedy


def test_the_place_of_a_passage_is_kept_and_follows_its_file(tmp_path: Path) -> None:
    first = Passage("p", "T", "The harbour was closed.", "a.pdf", "page 3")
    with IndexWriter(tmp_path / "index") as writer:
        writer.put_source("a.pdf", [first])
    assert Bm25Index.open(tmp_path / "index").search("harbour", 1)[0].passage == first
    moved = replace(first, place="page 4")
    with IndexWriter(tmp_path / "index") as writer:
        assert writer.put_source("a.pdf", [moved]) == (0, 0)
    assert Bm25Index.open(tmp_path / "index").search("harbour", 1)[0].passage.place == "page 4"
    with IndexWriter(tmp_path / "index") as writer:
        writer.put_source("b.pdf", [replace(first, source="b.pdf", place="page 9")])
        writer.compact()
    assert Bm25Index.open(tmp_path / "index").search("harbour", 1)[0].passage.place == "page 9"
    with IndexWriter(tmp_path / "index") as writer:
        writer.put_source("b.pdf", [])
    # Nobody knows any more where it stands in the file that is left.
    assert Bm25Index.open(tmp_path / "index").search("harbour", 1)[0].passage == replace(first, place="")
