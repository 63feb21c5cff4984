"""The latest episodes that were asked in the page: for the viewer's trajectory, documents and feedback."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

from beliefrag.record import Episode, Progress
from beliefrag.types import Question
from beliefrag.web.answers import hide_private
from beliefrag.web.problems import HttpProblem
from beliefrag.web.view.schema import EpisodeView, NotAvailable, PromptsView, view_prompts, view_record
from beliefrag.web.view.sources import EpisodeSource

_KEPT = 200  # one with its prompts takes about a hundred kilobytes


class AskedEpisode:
    """One episode that was asked in the page, which `keep` gets when it has ended."""

    def __init__(self, request_id: str, keep: Callable[[AskedEpisode], None], *, show_prompts: bool) -> None:
        self.request_id = request_id
        # Nobody can guess the number of another's episode; JavaScript counts exactly up to 53 bits.
        self.number = 1 + secrets.randbits(52)
        self.feedback = 0  # verdicts
        self.show_prompts = show_prompts
        self._keep = keep
        self.record = Episode(method="", question=Question(""))

    def on_progress(self, progress: Progress) -> None:
        """Keep the episode that the loop yields at its end."""
        if isinstance(progress, Episode) and progress.outcome is not None:
            self.record = progress if self.show_prompts else hide_private(progress)
            self._keep(self)

    def on_end(self, ending: str, seconds: float) -> None:
        """Nothing is open."""


class PageEpisodes(EpisodeSource):
    """Keeps the latest episodes in memory and returns them to the viewer's pages by number."""

    kind = "page"
    name = "How it got there"

    def __init__(self, *, show_prompts: bool) -> None:
        self._show_prompts = show_prompts
        self._lock = threading.Lock()
        self._kept: dict[str, AskedEpisode] = {}

    def begin(self, request_id: str) -> AskedEpisode:
        """Return what observes an episode, and keeps it once it has ended."""
        return AskedEpisode(request_id, self._keep, show_prompts=self._show_prompts)

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
        return view_record(self._find_number(number).record, "page", id=number)

    def prompts(self, number: int) -> PromptsView:
        """Return the prompts of its calls, or that they are not shown."""
        asked = self._find_number(number)
        if not asked.show_prompts:
            return PromptsView(absent="The operator of this server does not show prompts and replies.")
        return view_prompts(asked.record)

    def _keep(self, asked: AskedEpisode) -> None:
        with self._lock:
            # A client may choose the id of its request; it must not take another episode's place.
            self._kept.setdefault(asked.request_id, asked)
            while len(self._kept) > _KEPT:
                del self._kept[next(iter(self._kept))]

    def _find_number(self, number: int) -> AskedEpisode:
        with self._lock:
            for asked in self._kept.values():
                if asked.number == number:
                    return asked
        raise NotAvailable("This episode is unknown, or no longer kept.")
