"""Filling an engine: a run changes what came from its own paths, and is completed by running it again."""

from __future__ import annotations

from io import BufferedReader
from pathlib import Path

import pytest

from beliefrag.errors import CorpusError, RetrievalError
from beliefrag.retrieval import Bm25Index, IndexBusy, index_paths
from beliefrag.retrieval.engines.filling import fill, index_paths_to
from beliefrag.retrieval.isolation import open_regular
from beliefrag.types import Passage
from tests.support.engines import OpenSearchEngine, PostgresEngine, RemoteEngine
from tests.support.opensearch_server import OpenSearchServer, Reply
from tests.support.postgres import PostgresServer


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))


def write(folder: Path, **texts: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def sources(engine: RemoteEngine, word: str) -> list[str]:
    """Return where the passages with a word come from."""
    return sorted(Path(hit.passage.source).parent.name for hit in engine.open().search(word, 20))


def test_passages_of_other_paths_stay(remote: RemoteEngine, tmp_path: Path) -> None:
    north = write(tmp_path / "north", a="A fjord.", b="A glacier and a fjord.")
    south = write(tmp_path / "south", c="A desert.")
    index_paths_to(north, remote.target)
    report = index_paths_to(south, remote.target)
    assert (report.passages_added, report.passages_removed, report.passages_total) == (1, 0, 3)
    (north / "a.md").unlink()
    report = index_paths_to(north, remote.target)
    assert (report.passages_added, report.passages_removed, report.passages_total) == (0, 1, 2)
    assert sources(remote, "fjord desert") == ["north", "south"]
    # A file inside a folder is a path of its own, and says nothing about its neighbours.
    write(north, d="An iceberg.")
    assert index_paths_to(north / "d.md", remote.target).passages_total == 3
    index_paths(tmp_path, tmp_path / "index", names=False)
    assert {hit.passage.text for hit in remote.open().search("fjord glacier desert iceberg", 5)} == {
        hit.passage.text for hit in Bm25Index.open(tmp_path / "index").search("fjord glacier desert iceberg", 5)
    }


def test_the_index_is_that_of_the_documents_and_a_second_run_writes_nothing(
    remote: RemoteEngine, tmp_path: Path
) -> None:
    docs = write(tmp_path / "docs", a="A fjord.", b="A glacier.")
    report = index_paths_to(docs, remote.target)
    assert (report.files_read, report.passages_added) == (2, 2)
    assert report.fingerprint == remote.open().fingerprint
    assert report.fingerprint == index_paths(docs, tmp_path / "index", names=False).fingerprint
    again = index_paths_to(docs, remote.target)
    assert (again.files_read, again.passages_added, again.passages_removed) == (0, 0, 0)
    assert again.fingerprint == report.fingerprint
    write(docs, a="A waterfall.")
    changed = index_paths_to(docs, remote.target)
    assert (changed.files_read, changed.passages_added, changed.passages_removed) == (1, 1, 1)
    assert sources(remote, "fjord") == []


def test_an_id_that_another_folder_uses_is_not_written_over(remote: RemoteEngine, tmp_path: Path) -> None:
    north, south = write(tmp_path / "north", a="A fjord."), write(tmp_path / "south", a="A desert.")
    for _ in range(2):
        for folder in (north, south):
            report = index_paths_to(folder, remote.target)
    assert (report.passages_added, report.passages_removed, report.passages_total) == (0, 0, 2)
    assert sources(remote, "fjord desert") == ["north", "south"]


def test_a_passage_of_two_folders_stays_until_neither_has_it(remote: RemoteEngine, tmp_path: Path) -> None:
    north, south = write(tmp_path / "north", a="A fjord.", b="Ice."), write(tmp_path / "south", a="A fjord.", b="Sand.")
    for folder in (north, south):
        report = index_paths_to(folder, remote.target)
    assert report.passages_total == 3
    for folder, rest in ((north, 3), (south, 2)):
        (folder / "a.md").unlink()
        assert index_paths_to(folder, remote.target).passages_total == rest
    assert sources(remote, "fjord") == []


def test_what_cannot_be_read_at_the_moment_is_not_removed(
    remote: RemoteEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = write(tmp_path / "docs", a="A fjord.", b="A glacier.")
    index_paths_to(docs, remote.target)
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "another cache"))
    real = open_regular

    def refuse(path: str) -> BufferedReader:
        if path.endswith("a.md"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    for module in ("indexing", "engines.filling"):
        monkeypatch.setattr(f"beliefrag.retrieval.{module}.open_regular", refuse)
    report = index_paths_to(docs, remote.target)
    assert [each.reason for each in report.skipped] == ["cannot be read: Permission denied"]
    assert (report.passages_total, report.passages_removed) == (2, 0)


def test_a_run_that_failed_is_completed_by_the_next_one(remote: RemoteEngine) -> None:
    passages = [Passage(f"p{number:03}", "", f"river number {number}") for number in range(60)]
    remote.fill(passages[:20])
    pages = [[(each, (each.source,)) for each in passages[low : low + 20]] for low in range(0, 60, 20)]

    def stop(done: int) -> None:
        if done == 40:
            raise CorpusError("The documents are gone.")

    with pytest.raises(CorpusError, match="gone"):
        fill(remote.write(), pages, lambda _: True, stop)
    if isinstance(remote, PostgresEngine):
        assert len(remote.open()) == 20, "a transaction that failed changes nothing"
    else:
        with pytest.raises(CorpusError, match="interrupted"):
            remote.open()
    fill(remote.write(), pages, lambda _: True)
    assert remote.open().fingerprint == Bm25Index.in_memory(passages).fingerprint
    assert len(remote.open().search("river", 100)) == 60


def test_a_second_writer_of_a_table_has_to_wait(postgres: PostgresServer) -> None:
    engine = PostgresEngine(postgres, "pg_search")
    first = engine.write()
    with pytest.raises(IndexBusy, match="another process"):
        engine.write()
    first.close()
    engine.fill([Passage("a", "", "river")])
    assert len(engine.open()) == 1


def test_a_writer_of_an_index_that_was_overtaken_fails_and_can_run_again(opensearch_server: OpenSearchServer) -> None:
    engine = OpenSearchEngine(opensearch_server.url)
    pages = [[(Passage(each, "", f"river {each}"), ("north",))] for each in "ab"]

    def overtake(done: int) -> None:
        if done == 2:
            fill(engine.write(), [[(Passage("c", "", "river"), ("south",))]], lambda source: source == "south")

    with pytest.raises(IndexBusy, match="another process"):
        fill(engine.write(), pages, lambda source: source == "north", overtake)
    with pytest.raises(CorpusError, match="interrupted"):
        engine.open()
    fill(engine.write(), pages, lambda source: source == "north")
    assert sorted(hit.passage.id for hit in engine.open().search("river", 5)) == ["a", "b", "c"]


def test_a_document_that_the_server_refuses_for_good_is_an_error(opensearch_server: OpenSearchServer) -> None:
    engine = OpenSearchEngine(opensearch_server.url)

    def spoil(method: str, path: str, reply: Reply) -> Reply | None:
        if "_bulk" not in path:
            return None
        error = {"type": "mapper_parsing_exception", "reason": "no room"}
        return 200, {"took": 1, "errors": True, "items": [{"index": {"_id": "a", "status": 400, "error": error}}]}

    opensearch_server.spoil = spoil
    with pytest.raises(RetrievalError, match=r"refused the passage .a. with HTTP 400: .*no room"):
        engine.fill([Passage("a", "", "the river")])


def test_a_shard_that_cannot_be_read_stops_filling_before_it_changes_anything(
    opensearch_server: OpenSearchServer,
) -> None:
    engine = OpenSearchEngine(opensearch_server.url)
    engine.fill([Passage("a", "", "the river")])

    def spoil(method: str, path: str, reply: Reply) -> Reply | None:
        error = {"type": "no_shard_available_action_exception", "reason": "node left"}
        return (200, {"docs": [{"_id": "a", "error": error}]}) if "_mget" in path else None

    opensearch_server.spoil = spoil
    with pytest.raises(RetrievalError, match=r"cannot be read: .*node left"):
        engine.fill([Passage("a", "", "another river")])
    assert [hit.passage.text for hit in engine.open().search("river", 5)] == ["the river"]
