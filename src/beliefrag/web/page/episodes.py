"""The latest episodes that were asked in the page: for the viewer's trajectory, documents and feedback."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from beliefrag.events import CallFinished, Decided, Event, Finished, Retrieved, Started, as_record
from beliefrag.outcome import Outcome
from beliefrag.types import Passage, Question
from beliefrag.web.answers import remove_folders
from beliefrag.web.view.sanitise import replace_lone_surrogates
from beliefrag.web.view.schema import EpisodeView, NotAvailable, PromptsView
from beliefrag.web.view.trace import EventRecord, view_events, view_prompts

__all__ = ["AskedEpisode", "PageEpisodes"]

_KEPT = 200
"""Episodes that are kept. One with its prompts takes about a hundred kilobytes."""
_WITHHELD = "The operator of this server does not show prompts and replies."


@dataclass
class AskedEpisode:
    """One episode that was asked in the page: it observes the events and keep them."""

    request_id: str
    keep: Callable[[AskedEpisode], None]
    """Called when it begins. A question that is refused, or leaves the queue, takes nobody's place."""
    number: int
    """Its number in the viewer's addresses. It is drawn, so that nobody can guess those of other people."""
    show_prompts: bool
    records: list[EventRecord] = field(default_factory=list)
    question: Question | None = None
    outcome: Outcome | None = None
    """How it ended; None while it runs or when it was interrupted."""
    passages: dict[str, Passage] = field(default_factory=dict)
    """The passages that its searches returned."""
    feedback: int = 0
    """How often somebody has said whether the answer was right."""

    def on_event(self, event: Event) -> None:
        """Keep one event."""
        if isinstance(event, Started):
            self.question = event.question
            self.keep(self)
        elif isinstance(event, Retrieved):
            self.passages |= {hit.passage.id: hit.passage for hit in event.hits}
        elif isinstance(event, Finished):
            self.outcome = event.outcome
        record = as_record(event)
        self.records.append(replace_lone_surrogates(record if self.show_prompts else _hide_private(record, event)))

    def on_end(self, ending: str, seconds: float) -> None:
        """Nothing is open."""


class PageEpisodes:
    """Keeps the latest episodes in memory and return them to the viewer's pages by number.

    Args:
        thresholds: The thresholds that are used.
        show_prompts: Whether a trajectory has prompts and replies, the model's address and the folders of documents.
    """

    kind: Literal["page"] = "page"
    name = "How it got there"

    def __init__(self, thresholds: Mapping[str, float], *, show_prompts: bool) -> None:
        self._thresholds = thresholds
        self._show_prompts = show_prompts
        self._lock = threading.Lock()
        self._by_request: OrderedDict[str, AskedEpisode] = OrderedDict()
        self._by_number: dict[int, AskedEpisode] = {}

    def begin(self, request_id: str) -> AskedEpisode:
        """Return what observes an episode and keep it once it begins; the oldest one makes room for it."""
        # JavaScript counts exactly up to 53 bits.
        return AskedEpisode(request_id, self._keep, 1 + secrets.randbits(52), self._show_prompts)

    def find(self, request_id: str) -> AskedEpisode:
        """Return an episode by the id of its request.

        Raises:
            NotAvailable: It is not kept.
        """
        with self._lock:
            found = self._by_request.get(request_id)
        if found is None:
            raise NotAvailable(
                f"This question is not among the last {_KEPT} since the server was started: ask it again."
            )
        return found

    def episode(self, number: int) -> EpisodeView:
        """Return one episode as far as it goes."""
        asked = self._find_number(number)
        records = list(asked.records)
        view = view_events(records, live=asked.outcome is None, thresholds=self._thresholds)
        return view.model_copy(update={"id": number})

    def prompts(self, number: int) -> PromptsView:
        """Return the prompts of its calls; return False if they are not shown."""
        asked = self._find_number(number)
        return view_prompts(list(asked.records)) if asked.show_prompts else PromptsView(absent=_WITHHELD)

    def close(self) -> None:
        """Close nothing: no file stays open."""

    def _keep(self, asked: AskedEpisode) -> None:
        with self._lock:
            # A client may choose the id of its request; it must not take another episode's place.
            if asked.request_id not in self._by_request:
                self._by_request[asked.request_id] = self._by_number[asked.number] = asked
            while len(self._by_request) > _KEPT:
                _, oldest = self._by_request.popitem(last=False)
                del self._by_number[oldest.number]

    def _find_number(self, number: int) -> AskedEpisode:
        with self._lock:
            found = self._by_number.get(number)
        if found is None:
            raise NotAvailable("There is no such episode, or it is not kept any more.")
        return found


def _hide_private(record: dict[str, Any], event: Event) -> dict[str, Any]:
    """Take out of an event what belongs to the operator alone: prompts, replies, drafts, addresses and folders."""
    if isinstance(event, Started):
        return record | {"model": "not shown", "prompts": {}, "made_with": {}}
    if isinstance(event, CallFinished):
        return record | {"messages": [], "reply": ""}
    if isinstance(event, Decided):
        observation = record["observation"]
        return record | {"attempt": None, "observation": observation and observation | {"draft": None}}
    if isinstance(event, Retrieved):
        for hit in record["hits"]:
            hit["passage"]["source"] = remove_folders(hit["passage"]["source"])
    elif isinstance(event, Finished):
        for name in ("sources", "citations", "nearest"):
            for each in record["outcome"].get(name, ()):
                each["source"] = remove_folders(each["source"])
    return record
