"""LangChain itself, not a stand-in for it: its vector store, its retrievers, its chains."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from beliefrag import BeliefRAG, Passage
from beliefrag.errors import BeliefRAGError, RetrievalError, SettingsError
from beliefrag.integrations.langchain import (
    BeliefRAGRunnable,
    EpisodeFailed,
    FromLangChain,
    LangChainRetriever,
    measured_scale,
)
from beliefrag.policy import ScoreScale
from beliefrag.retrieval import Bm25Index, Retriever
from tests.integrations.words import (
    ANSWER,
    DECLINING,
    PASSAGES,
    QUESTION,
    SURE,
    TEXTS,
    UNSURE,
    check_failing,
    check_hostile,
    counted,
    settings,
)
from tests.support.endless import Endless, all_cancelled, asked
from tests.test_hostile_passages import ATTACKS


class Words(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [counted(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return counted(text)


class Listed(BaseRetriever):
    """A retriever as people write them: a list, or a failure."""

    documents: list[Document]
    failing: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        if self.failing:
            raise ConnectionError("the cluster is away")
        return self.documents


class Watching(BaseCallbackHandler):
    def __init__(self) -> None:
        self.runs: dict[UUID, tuple[str, UUID | None]] = {}
        self.ended: list[Any] = []
        self.errors: list[BaseException] = []

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **more: Any) -> None:
        self.runs[run_id] = (more["name"], more.get("parent_run_id"))

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: UUID, **more: Any) -> None:
        self.runs[run_id] = ("retriever", more.get("parent_run_id"))

    def on_chain_end(self, outputs: Any, **_: Any) -> None:
        self.ended.append(outputs)

    def on_chain_error(self, error: BaseException, **_: Any) -> None:
        self.errors.append(error)


def store() -> InMemoryVectorStore:
    documents = [
        Document(text, id=name, metadata={"title": name.title(), "source": f"{name}.md"})
        for name, text in TEXTS.items()
    ]
    found = InMemoryVectorStore(Words())
    found.add_documents(documents)
    return found


def test_a_vector_store_searches_for_us_with_its_own_scores() -> None:
    retriever = FromLangChain(store(), scores="similarity")
    found = retriever.search("polar ship Fram", 2)
    assert isinstance(retriever, Retriever)
    assert found[0].passage == Passage("fram", "Fram", TEXTS["fram"], "fram.md")
    assert len(found) == 2
    assert 1 > found[0].score > found[1].score >= 0


def test_distances_are_turned_so_that_more_is_better_and_ranks_are_reciprocals() -> None:
    turned = FromLangChain(store(), scores="distance").search("polar ship Fram", 3)
    plain = FromLangChain(store(), scores="similarity").search("polar ship Fram", 3)
    assert [hit.score for hit in turned] == [-hit.score for hit in plain]
    assert [hit.score for hit in FromLangChain(store(), scores="rank").search("ship", 2)] == [1.0, 0.5]


def test_relevance_scores_are_used_where_a_store_has_them_or_else_another_kind_is_named() -> None:
    class WithRelevance(InMemoryVectorStore):
        def _select_relevance_score_fn(self) -> Any:
            return lambda similarity: (similarity + 1) / 2

    rich = WithRelevance(Words())
    rich.add_texts(["alpha beta"], ids=["a"])
    assert FromLangChain(rich).search("alpha beta", 1)[0].score == pytest.approx(1.0)
    with pytest.raises(RetrievalError, match="InMemoryVectorStore failed") as caught:
        FromLangChain(store()).search("ship", 2)
    assert "scores='similarity'" in caught.value.remedy


def test_a_store_retriever_is_told_how_many_documents_are_wanted() -> None:
    retriever = store().as_retriever(search_kwargs={"k": 1})
    assert len(FromLangChain(retriever).search("ship", 3)) == 3


def test_a_retriever_without_scores_has_ranks_and_stable_ids() -> None:
    retriever = FromLangChain(Listed(documents=[Document("alpha"), Document("beta"), Document("gamma")]))
    found, again = retriever.search("x", 2), retriever.search("y", 2)
    assert [hit.score for hit in found] == [1.0, 0.5]
    assert [hit.passage.id for hit in found] == [hit.passage.id for hit in again]
    assert len({hit.passage.id for hit in found}) == 2


def test_a_score_in_the_metadata_is_used_where_it_is_named() -> None:
    documents = [Document("alpha", metadata={"relevance_score": 0.8}), Document("beta", metadata={})]
    ranked = FromLangChain(Listed(documents=documents), score_key="relevance_score")
    assert [hit.score for hit in ranked.search("x", 1)] == [0.8]
    with pytest.raises(RetrievalError, match="no score"):
        FromLangChain(Listed(documents=documents), score_key="relevance_score", scale=ScoreScale(0.5, 0.1)).search(
            "x", 2
        )


def test_a_measured_scale_gives_relevance_its_say(tmp_path: Path) -> None:
    plain = FromLangChain(store(), scores="similarity")
    scaled = FromLangChain(store(), scores="similarity", scale=measured_scale(plain, list(TEXTS.values()), k=3))
    seen = []
    for retriever in (plain, scaled):
        with BeliefRAG(retriever=retriever, **settings(tmp_path)) as rag:
            diagnostics = rag.ask(QUESTION).steps[-1].diagnostics
        assert diagnostics is not None
        seen.append(diagnostics.relevance)
    assert seen[0] == pytest.approx(0.5, abs=1e-6)
    assert seen[1] > 0.52


@pytest.mark.parametrize(
    ("source", "options", "problem"),
    [
        (store(), {"score_key": "s"}, "for retrievers"),
        (store(), {"scores": "rank", "scale": ScoreScale(1, 1)}, "need no scale"),
        (Listed(documents=[]), {"scores": "rank"}, "for vector stores"),
        (Listed(documents=[]), {"scale": ScoreScale(1, 1)}, "need no scale"),
        ("a path", {}, "neither"),
    ],
)
def test_options_that_do_not_fit_their_source_are_refused(source: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        FromLangChain(source, **options)


def test_a_failing_retriever_fails_the_episode_and_answers_nothing(tmp_path: Path) -> None:
    check_failing(FromLangChain(Listed(documents=[], failing=True)), tmp_path)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_in_a_document_stays_inside_its_passage(tmp_path: Path, attack: str) -> None:
    hostile = Document(attack, id=attack, metadata={"title": attack, "source": attack, "instructions": attack})
    check_hostile(FromLangChain(Listed(documents=[Document(TEXTS["fram"]), hostile])), tmp_path)


async def test_our_index_or_an_open_beliefrag_is_a_langchain_retriever(tmp_path: Path) -> None:
    retriever = LangChainRetriever(retriever=Bm25Index.in_memory(PASSAGES), k=2)
    found = retriever.invoke("Where was Colin Archer born?")
    assert [document.id for document in found] == ["archer", "fram"]
    assert found[0].page_content == TEXTS["archer"]
    assert (found[0].metadata["title"], found[0].metadata["source"]) == ("Archer", "archer.md")
    assert found[0].metadata["score"] > found[1].metadata["score"]
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path)) as rag:
        found = await LangChainRetriever(retriever=rag, k=1).ainvoke("Larvik")
    assert [document.id for document in found] == ["archer"]


def test_a_chain_asks_and_gets_answer_probability_reason_and_sources(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path)) as rag:
        chain = PromptTemplate.from_template("Who designed the {ship}?") | RunnableLambda(
            lambda prompt: prompt.to_string()
        )
        answer = (chain | BeliefRAGRunnable(rag)).invoke({"ship": "Fram"})
    assert answer["question"] == "Who designed the Fram?"
    assert (answer["outcome"], answer["answer"]) == ("answered", "Colin Archer")
    assert answer["answerability"] is not None
    assert answer["answerability"] > 0.5
    assert "can be answered" in answer["reason"]
    assert answer["sources"][0].id == "fram"
    assert answer["sources"][0].metadata["score"] > 0
    assert [step["action"] for step in answer["steps"]] == ["RETRIEVE", "ANSWER"]
    assert answer["usage"]["calls"] == 2
    (citation,) = answer["citations"]
    assert (citation["passage_id"], citation["quote"], citation["source"]) == ("fram", TEXTS["fram"], "fram.md")
    assert (answer["best_guess"], answer["nearest"]) == (None, [])


def test_a_mapping_with_the_question_in_it_is_understood_and_one_without_is_refused(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path)) as rag:
        assert BeliefRAGRunnable(rag).invoke({"question": QUESTION})["answer"] == "Colin Archer"
        assert BeliefRAGRunnable(rag, question_key="q").invoke({"q": QUESTION})["answer"] == "Colin Archer"
        with pytest.raises(SettingsError, match="without a question"):
            BeliefRAGRunnable(rag).invoke({"q": QUESTION})


def test_declining_is_an_outcome_without_an_answer(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, UNSURE, ANSWER), **DECLINING) as rag:
        answer = BeliefRAGRunnable(rag).invoke(QUESTION)
    assert (answer["outcome"], answer["answer"], answer["best_guess"]) == ("abstained", None, "Colin Archer")
    assert answer["citations"] == []
    assert answer["nearest"][0]["quote"] == TEXTS["fram"]
    assert answer["reason"]


async def test_a_failure_is_raised_and_told_to_callbacks_however_it_is_asked(tmp_path: Path) -> None:
    watching = Watching()
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, SURE)) as rag:
        runnable = BeliefRAGRunnable(rag)
        with pytest.raises(EpisodeFailed, match="no line left") as caught:
            runnable.invoke(QUESTION, {"callbacks": [watching]})
        with pytest.raises(EpisodeFailed):
            await runnable.ainvoke(QUESTION)
        with pytest.raises(EpisodeFailed):
            list(runnable.stream(QUESTION))
        with pytest.raises(EpisodeFailed):
            [piece async for piece in runnable.astream(QUESTION)]
    assert watching.errors == [caught.value]
    assert isinstance(caught.value, BeliefRAGError)
    assert caught.value.cause == "ModelError"
    assert caught.value.episode.usage.calls == 1


async def test_pieces_of_a_stream_add_up_to_what_invoke_gives(tmp_path: Path) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path)) as rag:
        runnable: Any = BeliefRAGRunnable(rag)
        whole = runnable.invoke(QUESTION)
        pieces = list(runnable.stream(QUESTION))
        awaited = [piece async for piece in runnable.astream(QUESTION)]
    for stream in (pieces, awaited):
        assert [sorted(piece) for piece in stream[:-1]] == [["steps"], ["steps"]]
        total = stream[0]
        for piece in stream[1:]:
            total = total + piece
        # Seconds are the one thing that differs between two runs.
        assert {**total, "usage": None} == {**whole, "usage": None}
        assert total["usage"]["tokens"] == whole["usage"]["tokens"]


async def test_callbacks_see_the_chain_and_a_search_with_langchain_as_its_child(tmp_path: Path) -> None:
    retriever = FromLangChain(Listed(documents=[Document(TEXTS["fram"])]))
    with BeliefRAG(retriever=retriever, **settings(tmp_path)) as rag:
        runnable = BeliefRAGRunnable(rag)
        ways = [Watching() for _ in range(4)]
        runnable.invoke(QUESTION, {"callbacks": [ways[0]]})
        await runnable.ainvoke(QUESTION, {"callbacks": [ways[1]]})
        list(runnable.stream(QUESTION, {"callbacks": [ways[2]]}))
        [piece async for piece in runnable.astream(QUESTION, {"callbacks": [ways[3]]})]
    for watching in ways:
        (chain, (name, parent)), *searches = watching.runs.items()
        assert (name, parent) == ("BeliefRAG", None)
        assert [run for _, run in searches] == [("retriever", chain)]
        assert [output["answer"] for output in watching.ended] == ["Colin Archer"]


async def test_who_cancels_or_stops_reading_stops_the_model_call(tmp_path: Path, endless: Endless) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, ANSWER)) as rag:
        runnable = BeliefRAGRunnable(rag)
        waiting = asyncio.create_task(runnable.ainvoke(QUESTION))
        await asked(endless, 1)
        waiting.cancel()
        await all_cancelled(endless, 1)

        stream: Any = runnable.astream(QUESTION)
        await anext(stream)
        await asked(endless, 2)
        await stream.aclose()
        await all_cancelled(endless, 2)

        pieces: Any = runnable.stream(QUESTION)
        await asyncio.to_thread(next, pieces)
        await asked(endless, 3)
        pieces.close()
        await all_cancelled(endless, 3)
