"""The addresses of the page to ask in. Questions themselves go to /v1/ask, as those of programs do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from beliefrag.errors import RetrievalError
from beliefrag.retrieval import Bm25Index, Retriever
from beliefrag.types import Passage
from beliefrag.web.answers import remove_folders
from beliefrag.web.page.episodes import AskedEpisode, PageEpisodes
from beliefrag.web.page.feedback import FeedbackFile, Verdict
from beliefrag.web.problems import HttpProblem
from beliefrag.web.service import AnswerService
from beliefrag.web.view.view_app import read_asset

_LONGEST_ID = 64
_MOST_SKIPPED = 100


@dataclass(frozen=True, slots=True)
class AskPage:
    """The page to ask in."""

    name: str
    """The names of the documents."""
    episodes: PageEpisodes
    feedback: FeedbackFile


class FeedbackBody(BaseModel):
    """A verdict on an answer."""

    model_config = ConfigDict(extra="forbid")

    id: str = Field(max_length=_LONGEST_ID)
    verdict: Verdict
    right_answer: str = Field("", max_length=1_000)


def page_routes(page: AskPage, service: AnswerService) -> APIRouter:
    """Return the routes of the page."""
    router = APIRouter(include_in_schema=False)

    @router.get("/")
    async def show() -> Response:
        return Response(read_asset("ask.html"), media_type="text/html")

    @router.get("/page/about")
    async def about() -> dict[str, Any]:
        index, report = _index(service.assembly.harness.retriever), service.assembly.report
        skipped = report.skipped if report else ()
        return {
            "name": page.name,
            "passages": None if index is None else len(index),
            "question_chars": service.limits.question_chars,
            "answer_style": service.settings.answer_style,
            "feedback": page.feedback.path.name,
            "updated": service.updated_at.isoformat(),
            "languages": report.languages if report else {},
            "skipped": [{"name": remove_folders(each.path), "reason": each.reason} for each in skipped[:_MOST_SKIPPED]],
            "skipped_count": len(skipped),
        }

    @router.get("/page/trajectory/{request_id}")
    async def trajectory(request_id: str) -> Response:
        return RedirectResponse(f"/episode/{page.episodes.find(request_id).number}", 303)

    @router.get("/page/document")
    async def document(
        asked: Annotated[str, Query(max_length=_LONGEST_ID)],
        passage: Annotated[str, Query(max_length=512)],
    ) -> dict[str, Any]:
        episode, retriever = page.episodes.find(asked), service.assembly.harness.retriever
        return await asyncio.to_thread(read_document, retriever, episode, passage)

    @router.post("/page/feedback")
    async def feedback(body: Annotated[FeedbackBody, Body()]) -> dict[str, str]:
        asked = page.episodes.find(body.id)
        if not asked.record.finished:
            raise HttpProblem(409, "no_answer", "This question has no answer to judge.")
        kept = await asyncio.to_thread(page.feedback.keep, asked.record, body.verdict, body.right_answer)
        return {"kept_as": kept}

    return router


def read_document(retriever: Retriever, asked: AskedEpisode, passage_id: str) -> dict[str, Any]:
    """Return the document of a passage, put together from the index: no file is opened.

    Only a passage that the episode found can be named.
    """
    known = asked.record.passages
    if (passage := known.get(passage_id)) is None:
        raise HttpProblem(404, "no_passage", "The answer has no such passage.")
    found: Sequence[Passage] = [each for each in known.values() if each.source and each.source == passage.source]
    whole = False
    if (index := _index(retriever)) is not None:
        # The index may have been replaced by a newer version since the question was asked.
        with contextlib.suppress(RetrievalError):
            found, whole = index.read_document(passage_id)
    shown = [{"id": e.id, "title": e.title, "text": e.text, "place": e.place} for e in found or [passage]]
    return {"source": remove_folders(passage.source), "whole": whole, "passages": shown}


def _index(retriever: Retriever) -> Bm25Index | None:
    index = getattr(retriever, "index", retriever)
    return index if isinstance(index, Bm25Index) else None
