"""What the handlers of all routes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from starlette.requests import Request

from beliefrag.engine.assembly import Assembly
from beliefrag.events import Event
from beliefrag.web.admission import Waiting
from beliefrag.web.auth import came_from_page
from beliefrag.web.request_log import request_record
from beliefrag.web.server_metrics import ServerMetrics
from beliefrag.web.service import AnswerService, EpisodeObserver, EpisodeTask

if TYPE_CHECKING:
    from beliefrag.web.page import AskPage

__all__ = ["HttpContext"]


@dataclass(frozen=True, slots=True)
class HttpContext:
    """The service, its counters, and the operator's choices."""

    service: AnswerService
    metrics: ServerMetrics
    model_name: str = "beliefrag"
    """The model name that OpenAI's clients ask for."""
    earlier_turns: Literal["refuse", "ignore"] = "refuse"
    """What happens to a conversation's earlier turns, because the method answers single questions."""
    show_prompts: bool = False
    """Whether streamed events include prompts and replies."""
    make_observer: Callable[[Mapping[str, str]], EpisodeObserver] | None = None
    """Makes one more observer of an episode from the request's headers, for tracing."""
    docs: Sequence[Path] | None = None
    """The documents that a reload reads again."""
    index: Path | None = None
    """The index that a reload opens again."""
    page: AskPage | None = None
    """The page to ask in; None where there is none."""

    def start_episode(self, request: Request, question: str, assembly: Assembly) -> EpisodeTask:
        """Start an episode for a request whose body was read."""
        record = request_record(request.scope)
        observers: list[EpisodeObserver] = [record, self.metrics]
        if self.make_observer is not None:
            observers.append(self.make_observer(request.headers))
        if self.page is not None and came_from_page(request.scope):
            observers.append(self.page.episodes.begin(record.request_id))

        async def run(on_event: Callable[[Event | Waiting], None]) -> None:
            def note_wait(event: Event | Waiting) -> None:
                if isinstance(event, Waiting) and record.waiting is None:
                    record.waiting = event
                on_event(event)

            await self.service.run_episode(question, assembly, observers, note_wait)

        return EpisodeTask(run, request.receive)
