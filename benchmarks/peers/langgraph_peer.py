"""Answers questions with the agentic RAG of LangGraph's documentation, over a BM25 retriever.

The page is "Build a custom RAG agent with LangGraph" (langchain-ai/docs, MIT licence). Its prompts, its grading scheme
and its nodes are run as the page has them: they are read from a file that `tutorial.py` makes of the page. Ours are the
retriever, the description of its tool, and the edges, which the page tells in words:

- `generate_query_or_respond` calls the retriever tool, or its reply is the answer;
- `grade_documents` leads from what was found to `generate_answer`, or to `rewrite_question` and back to the start.

The retriever is LangChain's, with its default of four passages. Its default words are those between spaces, with their
commas and capitals; here they are lower-case words, which find more.

It runs in a virtual environment of its own, and takes a question as a line of JSON on standard input, and gives a line
of JSON for each.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import Any, Literal

from langchain_community.retrievers import BM25Retriever
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel, Field

_MOST_STEPS = 25
"""LangGraph's recursion limit when the page was written. Today's default of 10,007 would try for days."""


class AgenticRag:
    """The graph over a corpus, and how often it has searched."""

    def __init__(self, corpus: str, url: str, definitions: str) -> None:
        with gzip.open(corpus, "rt", encoding="utf-8") as lines:
            passages = [json.loads(line) for line in lines]
        retriever = BM25Retriever.from_texts(
            [f"{each['title']}\n{each['text']}" for each in passages], preprocess_func=split_words
        )
        self.searches = 0

        @tool
        def retrieve_passages(query: str) -> str:
            """Search and return information about people, places, works and events."""
            self.searches += 1
            return "\n\n".join(found.page_content for found in retriever.invoke(query))

        model = ChatOpenAI(model="embedded", base_url=url, api_key="none", temperature=0, timeout=600, max_retries=0)
        self._graph = build_graph(model, retrieve_passages, definitions)

    def ask(self, question: str) -> dict[str, Any]:
        """Return the last message as the answer, or why there is none."""
        self.searches = 0
        asked = {"messages": [{"role": "user", "content": question}]}
        try:
            ended = self._graph.invoke(asked, {"recursion_limit": _MOST_STEPS})
            told = {"answer": str(ended["messages"][-1].content)}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
        return told | {"searches": self.searches}


def split_words(text: str) -> list[str]:
    """Return the lower-case words of a text."""
    return re.findall(r"\w+", text.lower())


def build_graph(model: Any, retriever_tool: Any, definitions: str) -> Any:
    """Return the page's nodes with our model and retriever, and the edges between them."""
    page: dict[str, Any] = {
        "BaseModel": BaseModel,
        "Field": Field,
        "HumanMessage": HumanMessage,
        "Literal": Literal,
        "MessagesState": MessagesState,
        "__name__": "tutorial",
        "grader_model": model,
        "response_model": model,
        "retriever_tool": retriever_tool,
    }
    exec(definitions, page)  # its digest was checked
    graph = StateGraph(MessagesState)
    for name in ("generate_query_or_respond", "rewrite_question", "generate_answer"):
        graph.add_node(name, page[name])
    graph.add_node("retrieve", ToolNode([retriever_tool]))
    graph.add_edge(START, "generate_query_or_respond")
    graph.add_conditional_edges("generate_query_or_respond", tools_condition, {"tools": "retrieve", END: END})
    graph.add_conditional_edges("retrieve", page["grade_documents"], ["generate_answer", "rewrite_question"])
    graph.add_edge("rewrite_question", "generate_query_or_respond")
    graph.add_edge("generate_answer", END)
    return graph.compile()


def main() -> None:
    """Answer until standard input ends."""
    corpus, url, definitions = sys.argv[1:4]
    agent = AgenticRag(corpus, url, Path(definitions).read_text(encoding="utf-8"))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(agent.ask(json.loads(line)["question"])), flush=True)


if __name__ == "__main__":
    main()
