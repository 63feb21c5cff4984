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
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.prompts import PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.vectorstores import InMemoryVectorStore

from beliefrag import BeliefRAG, Passage
from beliefrag.errors import BeliefRAGError, SettingsError
from beliefrag.integrations.langchain import BeliefRAGRunnable, EpisodeFailed, FromLangChain
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


def test_a_vector_store_or_its_retriever_searches_for_us() -> None:
    for source in (store(), store().as_retriever(search_kwargs={"k": 1})):
        retriever = FromLangChain(source)
        found = retriever.search("polar ship Fram", 2)
        assert isinstance(retriever, Retriever)
        assert found[0].passage == Passage("fram", "Fram", TEXTS["fram"], "fram.md")
        assert [hit.score for hit in found] == [1.0, 0.5]


def test_a_retriever_has_ranks_as_scores_and_a_document_that_comes_twice_is_one_hit() -> None:
    documents = [Document("alpha"), Document("beta"), Document("alpha"), Document("gamma")]
    retriever = FromLangChain(Listed(documents=documents))
    found = retriever.search("x", 3)
    assert [(hit.passage.text, hit.score) for hit in found] == [("alpha", 1.0), ("beta", 0.5), ("gamma", 1 / 3)]
    assert retriever.search("y", 2) == found[:2], "a document has the same id in every search"


def test_something_that_is_no_retriever_is_refused() -> None:
    with pytest.raises(SettingsError, match="neither"):
        FromLangChain("a path")  # type: ignore[arg-type]


def test_a_failing_retriever_fails_the_episode_and_answers_nothing(tmp_path: Path) -> None:
    with BeliefRAG(retriever=FromLangChain(Listed(documents=[], failing=True)), **settings(tmp_path)) as rag:
        episode = rag.ask(QUESTION)
    assert (episode.outcome, episode.cause, episode.answer) == ("failed", "RetrievalError", None)
    assert "ConnectionError: the cluster is away" in episode.message


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_in_a_document_stays_inside_its_passage(tmp_path: Path, attack: str) -> None:
    hostile = Document(attack, id=attack, metadata={"title": attack, "source": attack, "instructions": attack})
    check_hostile(FromLangChain(Listed(documents=[Document(TEXTS["fram"]), hostile])), tmp_path)


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


def test_a_follow_up_is_answered_in_view_of_the_messages_before_it(tmp_path: Path) -> None:
    rewrite = {"purpose": "standalone", "match": "Was the Fram built?", "reply": QUESTION, "repeat": True}
    history = [SystemMessage("Be brief."), HumanMessage("Was the Fram built?"), AIMessage("Yes.")]
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, SURE, ANSWER, rewrite)) as rag:
        runnable = BeliefRAGRunnable(rag)
        answer = runnable.invoke({"question": "Who did it?", "history": history})
        assert (answer["answer"], answer["standalone"]) == ("Colin Archer", QUESTION)
        assert runnable.invoke({"question": QUESTION, "where": "type=pdf"})["sources"] == []
        with pytest.raises(SettingsError, match="not a message"):
            runnable.invoke({"question": "Who did it?", "history": ["Was the Fram built?"]})


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
    assert watching.errors == [caught.value]
    assert isinstance(caught.value, BeliefRAGError)
    assert caught.value.cause == "ModelError"
    assert caught.value.episode.usage.calls == 1


async def test_callbacks_see_the_chain_and_a_search_with_langchain_as_its_child(tmp_path: Path) -> None:
    retriever = FromLangChain(Listed(documents=[Document(TEXTS["fram"])]))
    with BeliefRAG(retriever=retriever, **settings(tmp_path)) as rag:
        runnable = BeliefRAGRunnable(rag)
        ways = [Watching() for _ in range(2)]
        runnable.invoke(QUESTION, {"callbacks": [ways[0]]})
        await runnable.ainvoke(QUESTION, {"callbacks": [ways[1]]})
    for watching in ways:
        (chain, (name, parent)), *searches = watching.runs.items()
        assert (name, parent) == ("BeliefRAG", None)
        assert [run for _, run in searches] == [("retriever", chain)]
        assert [output["answer"] for output in watching.ended] == ["Colin Archer"]


async def test_who_cancels_stops_the_model_call(tmp_path: Path, endless: Endless) -> None:
    with BeliefRAG(passages=PASSAGES, **settings(tmp_path, ANSWER)) as rag:
        waiting = asyncio.create_task(BeliefRAGRunnable(rag).ainvoke(QUESTION))
        await asked(endless, 1)
        waiting.cancel()
        await all_cancelled(endless, 1)
