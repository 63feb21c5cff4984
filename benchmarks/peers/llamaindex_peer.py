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
from llama_index.core.schema import TextNode
from llama_index.llms.openai_like import OpenAILike
from llama_index.retrievers.bm25 import BM25Retriever


def build_engine(corpus: str, url: str, kind: str) -> Any:
    """The query engine over a corpus."""
    llm = OpenAILike(
        model="embedded", api_base=url, api_key="none", is_chat_model=True, context_window=4096, timeout=600,
        max_retries=0, temperature=0,
    )  # fmt: skip
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        passages = [json.loads(line) for line in lines]
    nodes = [TextNode(id_=each["id"], text=f"{each['title']}\n{each['text']}") for each in passages]
    retriever = BM25Retriever.from_defaults(nodes=nodes)
    engine = RetrieverQueryEngine.from_args(retriever, llm=llm)
    if kind == "default":
        return engine
    return MultiStepQueryEngine(
        query_engine=engine,
        query_transform=StepDecomposeQueryTransform(llm=llm),
        response_synthesizer=get_response_synthesizer(llm=llm),
        index_summary="Used to answer questions about people, places, works and events",
    )


def main() -> None:
    """Answers until standard input ends."""
    corpus, url, kind = sys.argv[1:4]
    engine = build_engine(corpus, url, kind)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            told = {"answer": str(engine.query(json.loads(line)["question"]))}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
