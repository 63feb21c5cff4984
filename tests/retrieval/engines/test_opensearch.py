"""OpenSearch: an answer in part is an error, and a busy server is asked again."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from beliefrag.errors import CorpusError, RetrievalError, SettingsError
from beliefrag.retrieval.engines.engine_retriever import EngineRetriever
from beliefrag.retrieval.engines.opensearch import OpenSearchIndex, OpenSearchOptions
from beliefrag.types import Passage
from tests.support.engines import OpenSearchEngine
from tests.support.opensearch_server import Index, OpenSearchServer, Reply, stall


def change_searches(server: OpenSearchServer, change: Any) -> None:
    """Changes the reply to every search of passages."""

    def spoil(method: str, path: str, reply: Reply) -> Reply | None:
        if "_msearch" not in path:
            return None
        value = copy.deepcopy(reply[1])
        change(value["responses"][0])
        return 200, value

    server.spoil = spoil


@pytest.fixture
def engine(opensearch_server: OpenSearchServer) -> OpenSearchEngine:
    engine = OpenSearchEngine(opensearch_server.url)
    engine.fill([Passage("a", "", "the river"), Passage("b", "", "a river and a hill")])
    return engine


def test_a_failed_shard_is_an_error_and_not_fewer_passages(
    engine: OpenSearchEngine, opensearch_server: OpenSearchServer
) -> None:
    retriever = engine.open()
    failures = [{"shard": 1, "reason": {"type": "x", "reason": "node left"}}]
    shards = {"total": 2, "successful": 1, "skipped": 0, "failed": 1, "failures": failures}
    change_searches(opensearch_server, lambda reply: reply.update(_shards=shards))
    with pytest.raises(RetrievalError, match=r"1 of 2 shards .* node left"):
        retriever.search("river", 2)


def test_a_shard_that_timed_out_is_an_error(engine: OpenSearchEngine, opensearch_server: OpenSearchServer) -> None:
    retriever = engine.open()
    change_searches(opensearch_server, lambda reply: reply.update(timed_out=True))
    with pytest.raises(RetrievalError, match=r"in time .*timeout=SECONDS"):
        retriever.search("river", 2)


def test_a_lagging_replica_is_an_error(engine: OpenSearchEngine, opensearch_server: OpenSearchServer) -> None:
    retriever = engine.open()
    opensearch_server.indices[engine.options.index].seen.pop("b")
    with pytest.raises(RetrievalError, match=r"\b1 of 2 passages.*refresh"):
        retriever.search("river", 2)


def test_a_server_that_stalls_is_left_after_the_timeout(
    engine: OpenSearchEngine, opensearch_server: OpenSearchServer
) -> None:
    options = OpenSearchOptions(url=opensearch_server.url, index=engine.options.index, timeout=0.2)
    retriever = EngineRetriever(OpenSearchIndex(options))
    retriever.search("river", 1)
    opensearch_server.spoil = stall(20)
    with pytest.raises(RetrievalError, match="in time"):
        retriever.search("river", 2)


def test_an_index_of_ones_own_is_searched_in_the_fields_that_are_named(opensearch_server: OpenSearchServer) -> None:
    fields = {"head": {"type": "text"}, "body": {"type": "text"}, "link": {"type": "keyword"}}
    index = opensearch_server.indices["wiki"] = Index({}, {"properties": fields})
    index.put("1", {"head": "Fram", "body": "A ship of Nansen", "link": "w/1"})
    index.put("2", {"head": "Maud", "body": "Another ship", "link": "w/2"})
    index.refresh()
    options = OpenSearchOptions(url=opensearch_server.url, index="wiki", title="head", text="body", source="link")
    retriever = EngineRetriever(OpenSearchIndex(options))
    assert retriever.search("the fram: AND ship*", 1)[0].passage == Passage("1", "Fram", "A ship of Nansen", "w/1")
    assert [passage.title for passage in retriever.get(["2"])] == ["Maud"]
    index.put("3", {"head": "Gjoa", "body": "A ship"})
    index.refresh()
    with pytest.raises(RetrievalError, match="changed during the run"):
        retriever.search("ship", 2)


def test_credentials_come_from_the_environment_and_stand_in_no_message(
    opensearch_server: OpenSearchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_OPENSEARCH_USER", "reader")
    monkeypatch.setenv("BELIEFRAG_OPENSEARCH_PASSWORD", "swordfish")
    with pytest.raises(CorpusError, match="does not exist") as missing:
        OpenSearchIndex(OpenSearchOptions(url=opensearch_server.url))
    assert opensearch_server.headers[-1]["authorization"].startswith("Basic ")
    assert "swordfish" not in str(missing.value)
    with pytest.raises(SettingsError, match="holds a password") as refused:
        OpenSearchIndex(OpenSearchOptions(url="https://reader:swordfish@example.org:9200"))
    assert "swordfish" not in str(refused.value)


def test_elasticsearch_is_called_by_its_name(engine: OpenSearchEngine, opensearch_server: OpenSearchServer) -> None:
    opensearch_server.distribution = None
    assert engine.open().description.engine == "Elasticsearch 3.1.0"
