"""Answers questions with LangChain's agent, a LangGraph graph, that searches with a BM25 tool as often as it likes.

It runs in a virtual environment of its own, and takes a question as a line of JSON on standard input, and gives a line
of JSON for each.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from rank_bm25 import BM25Okapi

_MOST_STEPS = 12
_FOUND = 4
"""Passages that a search gives: the default of LangChain's retrievers."""


def build_agent(corpus: str, url: str) -> Any:
    """The agent over a corpus."""
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        passages = [json.loads(line) for line in lines]
    texts = [f"{each['title']}\n{each['text']}" for each in passages]
    index = BM25Okapi([re.findall(r"\w+", text.lower()) for text in texts])

    @tool
    def search(query: str) -> str:
        """Search the documents for passages about a query."""
        found = index.get_top_n(re.findall(r"\w+", query.lower()), texts, n=_FOUND)
        return "\n\n".join(found)

    model = ChatOpenAI(model="embedded", base_url=url, api_key="none", temperature=0, timeout=600, max_retries=0)
    return create_agent(
        model,
        tools=[search],
        system_prompt="You answer questions from documents. Use the search tool to find what you need. Reply with the "
        "answer alone, in as few words as possible.",
    )


def main() -> None:
    """Answers until standard input ends."""
    corpus, url = sys.argv[1:3]
    agent = build_agent(corpus, url)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = {"messages": [{"role": "user", "content": json.loads(line)["question"]}]}
        try:
            ended = agent.invoke(asked, {"recursion_limit": _MOST_STEPS})
            told = {"answer": str(ended["messages"][-1].content)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
