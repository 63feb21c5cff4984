"""The latest episodes that were asked in the page: for the viewer's trajectory, documents and feedback."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from beliefrag.record import Episode, Progress
from beliefrag.types import Question
from beliefrag.web.problems import HttpProblem
from beliefrag.web.view.schema import EpisodeView, NotAvailable, view_record
from beliefrag.web.view.sources import EpisodeSource

_KEPT = 200  # one with its prompts takes about a hundred kilobytes


class AskedEpisode:
    """One episode that was asked in the page, which `keep` gets when it has ended."""

    def __init__(self, request_id: str, number: int, keep: Callable[[AskedEpisode], None]) -> None:
        self.request_id = request_id
        self.number = number
        self.record = Episode(method="", question=Question(""))
        self._keep = keep

    def on_progress(self, progress: Progress, seconds: float) -> None:
        """Keep the episode that the loop yields at its end."""
        if isinstance(progress, Episode) and progress.outcome is not None:
            self.record = progress
            self._keep(self)

    def on_end(self, ending: str, seconds: float) -> None:
        """Nothing is open."""


class PageEpisodes(EpisodeSource):
    """Keeps the latest episodes in memory and returns them to the viewer's pages by number."""

    kind = "page"
    name = "How it got there"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._kept: dict[str, AskedEpisode] = {}

    def begin(self, request_id: str) -> AskedEpisode:
        """Return what observes an episode, and keeps it once it has ended."""
        return AskedEpisode(request_id, next(self._numbers), self._keep)

    def find(self, request_id: str) -> AskedEpisode:
        """Return an episode by the id of its request."""
        with self._lock:
            found = self._kept.get(request_id)
        if found is None:
            message = f"This question is not among the last {_KEPT} since the server was started: ask it again."
            raise HttpProblem(404, "not_kept", message)
        return found

    def episode(self, number: int) -> EpisodeView:
        """Return one episode."""
        with self._lock:
            for asked in self._kept.values():
                if asked.number == number:
                    return view_record(asked.record, "page", id=number)
        raise NotAvailable("This episode is unknown, or no longer kept.")

    def _keep(self, asked: AskedEpisode) -> None:
        with self._lock:
            # A client may choose the id of its request; it must not take another episode's place.
            self._kept.setdefault(asked.request_id, asked)
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]
