"""Answers questions with LlamaIndex's BM25 retriever and its default or multi-step query engine.

It runs in a virtual environment of its own, and takes a question as a line of JSON on standard input, and gives a line
of JSON for each. Prompts, top k and modes are LlamaIndex's own.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

from llama_index.core.indices.query.query_transform.base import StepDecomposeQueryTransform
from llama_index.core.query_engine import MultiStepQueryEngine, RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.llms.openai_like import OpenAILike
from llama_index.retrievers.bm25 import BM25Retriever


class CountingRetriever(BaseRetriever):
    """Another retriever, and how often it was asked."""

    def __init__(self, retriever: BaseRetriever) -> None:
        super().__init__()
        self._retriever = retriever
        self.searches = 0

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.searches += 1
        return self._retriever.retrieve(query_bundle)


def build_engine(corpus: str, url: str, kind: str) -> tuple[Any, CountingRetriever]:
    """Return the query engine over a corpus, and its retriever."""
    llm = OpenAILike(
        model="embedded", api_base=url, api_key="none", is_chat_model=True, context_window=4096, timeout=600,
        max_retries=0, temperature=0,
    )  # fmt: skip
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        passages = [json.loads(line) for line in lines]
    nodes = [TextNode(id_=each["id"], text=f"{each['title']}\n{each['text']}") for each in passages]
    retriever = CountingRetriever(BM25Retriever.from_defaults(nodes=nodes))
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
    if kind == "default":
        return engine, retriever
    multistep = MultiStepQueryEngine(
        query_engine=engine,
        query_transform=StepDecomposeQueryTransform(llm=llm),
        response_synthesizer=get_response_synthesizer(llm=llm),
        index_summary="Used to answer questions about people, places, works and events",
    )
    return multistep, retriever


def main() -> None:
    """Answer until standard input ends."""
    corpus, url, kind = sys.argv[1:4]
    engine, retriever = build_engine(corpus, url, kind)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        retriever.searches = 0
        try:
            reply = engine.query(json.loads(line)["question"])
            read = dict.fromkeys(each.node.node_id for each in reply.source_nodes)
            told: dict[str, Any] = {"answer": str(reply), "sources": list(read)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(told | {"searches": retriever.searches}), flush=True)


if __name__ == "__main__":
    main()
