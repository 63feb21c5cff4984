"""One search for a client, over HTTP or as a tool: within the time limit, and in what the client may read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field

from beliefrag.web.answers import PassageBody, show_passage
from beliefrag.web.problems import HttpProblem
from beliefrag.web.request_settings import LimitedBody, check_question, limit_assembly
from beliefrag.web.service import AdmissionQueue, AnswerService

_MAX_PASSAGES = 20
"""The most that one search returns: more would fill an agent's context with passages that were not ranked high."""


class SearchArguments(LimitedBody):
    """Find passages in the documents of this server by their words, best first, without asking a model.

    For looking around; 'ask' searches by itself.
    """

    query: str = Field(description="Words to look for. They are ranked, without a query syntax.")
    k: Annotated[int, Field(ge=1, le=_MAX_PASSAGES, description="How many passages to return, best first.")] = 5


class FoundPassage(PassageBody):
    """A passage that a search found."""

    score: float = Field(description="the retriever's own, comparable within this search")
    found_by: str = Field(description="'search', or the name in the question or in a passage that led to it")


class SearchReply(BaseModel):
    """What a search found, best first; finding nothing is not an error."""

    passages: list[FoundPassage]


class SearchDesk:
    """Searches of one server. They take milliseconds and episodes minutes, so they have a queue of their own."""

    def __init__(self, service: AnswerService) -> None:
        self._service = service
        self._queue = AdmissionQueue(service.limits.concurrency, service.limits.queue)

    async def search(self, asked: SearchArguments, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a search finds, as `SearchReply` describes it."""
        seconds = self._service.limits.timeout
        query = check_question(asked.query, self._service, field="query")
        assembly = await asyncio.to_thread(limit_assembly, self._service.assembly_for(scope), asked.where)
        try:
            async with asyncio.timeout(seconds), self._queue.place():
                hits = await asyncio.to_thread(assembly.harness.retriever.search, query, asked.k)
        except TimeoutError:
            raise HttpProblem(504, "timeout", f"The search took more than {seconds:g} seconds.") from None
        return {
            "passages": [
                show_passage(hit.passage)
                | {"score": hit.score, "found_by": str(hit.provenance) if hit.provenance else "search"}
                for hit in hits[: asked.k]
            ]
        }
