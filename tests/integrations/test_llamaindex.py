"""LlamaIndex itself, not a stand-in for it: its vector index, its retrievers, its tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import QueryEngineTool

from beliefrag import BeliefRAG, Passage
from beliefrag.errors import SettingsError
from beliefrag.integrations.llamaindex import BeliefRAGQueryEngine, BeliefRAGResponse, EpisodeFailed, FromLlamaIndex
from beliefrag.retrieval import Retriever
from tests.integrations.words import (
    ANSWER,
    DECLINING,
    PASSAGES,
    QUESTION,
    SURE,
    TEXTS,
    UNSURE,
    check_hostile,
    counted,
    settings,
)
from tests.test_hostile_passages import ATTACKS


class Words(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return counted(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return counted(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return counted(query)


class Given(BaseRetriever):
    def __init__(self, *nodes: NodeWithScore) -> None:
        self._nodes = list(nodes)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._nodes


def nodes() -> list[TextNode]:
    return [
        TextNode(id_=name, text=text, metadata={"title": name.title(), "file_path": f"{name}.md", "secret": "s3"})
        for name, text in TEXTS.items()
    ]


def test_a_vector_index_searches_for_us_and_metadata_is_no_part_of_the_text() -> None:
    retriever = FromLlamaIndex(VectorStoreIndex(nodes=nodes(), embed_model=Words()).as_retriever())
    found = retriever.search("polar ship Fram", 2)
    assert isinstance(retriever, Retriever)
    assert found[0].passage == Passage("fram", "Fram", TEXTS["fram"], "fram.md")
    assert [hit.score for hit in found] == [1.0, 0.5]


def test_something_that_is_no_retriever_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"str .*LlamaIndex.*as_retriever"):
        FromLlamaIndex("a path")  # type: ignore[arg-type]


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_in_a_node_stays_inside_its_passage(tmp_path: Path, attack: str) -> None:
    hostile = TextNode(id_=attack, text=attack, metadata={"title": attack, "file_path": attack, "more": attack})
    fine = TextNode(text=TEXTS["fram"])
    given = Given(NodeWithScore(node=fine, score=0.9), NodeWithScore(node=hostile, score=0.8))
    check_hostile(FromLlamaIndex(given), tmp_path)


def test_an_engine_over_a_conversation_takes_follow_ups(tmp_path: Path) -> None:
    rewrite = {"purpose": "standalone", "match": "Colin Archer", "reply": QUESTION}
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, SURE, ANSWER, rewrite)) as rag:
        engine = BeliefRAGQueryEngine(rag.conversation())
        first, second = engine.query(QUESTION), engine.query("Who did it?")
    assert (first.metadata["standalone"], second.metadata["standalone"]) == ("", QUESTION)  # type: ignore[index]


async def test_a_query_gets_answer_sources_and_metadata(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path)) as rag:
        engine = BeliefRAGQueryEngine(rag)
        for response in (engine.query(QUESTION), await engine.aquery(QUESTION)):
            assert isinstance(response, BeliefRAGResponse)
            assert response.response == str(response) == "Colin Archer"
            assert response.source_nodes[0].node_id == "fram"
            assert response.source_nodes[0].get_score() > 0
            assert response.metadata is not None
            assert (response.metadata["outcome"], response.metadata["usage"]["calls"]) == ("answered", 2)
            assert [each["quote"] for each in response.metadata["citations"]] == [TEXTS["fram"]]


def test_an_agents_tool_reads_a_declined_question_as_declined(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, UNSURE, ANSWER), **DECLINING) as rag:
        engine = BeliefRAGQueryEngine(rag)
        response = engine.query(QUESTION)
        output = QueryEngineTool.from_defaults(engine).call(input=QUESTION)
    assert isinstance(response, BeliefRAGResponse)
    assert response.response is None
    assert response.metadata is not None and response.metadata["outcome"] == "abstained"
    assert str(output.content).startswith("(No answer: ")
    assert not output.is_error


async def test_a_failure_is_raised_and_told_to_callbacks(tmp_path: Path) -> None:
    debug = LlamaDebugHandler(print_trace_on_end=False)
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, SURE)) as rag:
        engine = BeliefRAGQueryEngine(rag, callback_manager=CallbackManager([debug]))
        with pytest.raises(EpisodeFailed, match="no line left"):
            engine.query(QUESTION)
        with pytest.raises(EpisodeFailed):
            await engine.aquery(QUESTION)
    ends = [pair[1] for pair in debug.get_event_pairs(CBEventType.QUERY)]
    assert [type(end.payload["exception"]) for end in ends if end.payload] == [EpisodeFailed, EpisodeFailed]
