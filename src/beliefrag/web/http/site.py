"""What the handlers of all routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from beliefrag.engine.assembly import Assembly
from beliefrag.events import Event, Finished
from beliefrag.integrations.otel import Tracing
from beliefrag.result import Result
from beliefrag.web.http.metrics import Metrics
from beliefrag.web.http.note import note_of
from beliefrag.web.http.problems import Problem
from beliefrag.web.http.running import Running
from beliefrag.web.http.service import Service, Watcher

__all__ = ["Site", "finished"]


@dataclass(frozen=True, slots=True)
class Site:
    """The service, what is counted, and the choices of whoever runs the server."""

    service: Service
    metrics: Metrics
    model_name: str = "beliefrag"
    """The name that OpenAI's clients ask for."""
    earlier_turns: Literal["refuse", "ignore"] = "refuse"
    """What becomes of a conversation's earlier turns; the method answers single questions."""
    show_prompts: bool = False
    """Whether streamed events hold what was said to the model."""
    tracing: Tracing | None = None
    """Makes spans of episodes, where somebody wants them."""

    def checked(self, question: str, where: str) -> str:
        """The question, if it is one.

        Raises:
            Problem: It is empty or too long.
        """
        most = self.service.limits.question_chars
        if not question.strip():
            raise Problem(422, "empty_question", "The question is empty.", remedy="Ask something.", field=where)
        if len(question) > most:
            raise Problem(
                422,
                "question_too_long",
                f"The question has {len(question):,} characters.",
                remedy=f"Ask with at most {most:,}.",
                field=where,
            )
        return question

    def begin(self, request: Request, question: str, assembly: Assembly) -> Running:
        """Begins an episode for a request whose body has been read."""
        watchers: list[Watcher] = [note_of(request.scope), self.metrics]
        if self.tracing is not None:
            watchers.append(self.tracing.episode(request.headers))
        return Running(lambda tell: self.service.play(question, assembly, watchers, tell), request.receive)


async def finished(running: Running) -> Result:
    """Waits for the end of an episode."""
    seen: list[Event] = []
    async with running:
        while not (seen and isinstance(seen[-1], Finished)):
            seen.append(await running.next())
    return Result.of(seen)
