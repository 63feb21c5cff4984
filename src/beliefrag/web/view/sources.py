"""What can be viewed: a run, a trace, or an episode under way."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from beliefrag._version import __version__
from beliefrag.events import Event, as_record
from beliefrag.runs.record import RUN_FILE, RunRecord
from beliefrag.runs.summary import summary_of
from beliefrag.web.view.errors import NotHere, ViewError
from beliefrag.web.view.index import RunIndex
from beliefrag.web.view.lines import mended
from beliefrag.web.view.overview import overview_record
from beliefrag.web.view.recorded import episode_of_run
from beliefrag.web.view.replay import Replayer
from beliefrag.web.view.sanitise import Material
from beliefrag.web.view.schema import EpisodeView, PromptsView
from beliefrag.web.view.trace import Record, episode_of, prompts_of, read_trace

__all__ = ["LiveSource", "RunSource", "Source", "TraceSource", "open_source"]


class Source(Protocol):
    """Episodes by number."""

    @property
    def kind(self) -> Literal["run", "trace", "live"]:
        """What it is."""
        ...

    @property
    def name(self) -> str:
        """What a person calls it."""
        ...

    def episode(self, number: int) -> EpisodeView:
        """One episode without its prompts.

        Raises:
            NotHere: There is no such number.
        """
        ...

    def prompts(self, number: int) -> PromptsView:
        """The prompts of its calls, or why they cannot be had."""
        ...

    def close(self) -> None:
        """Lets go of files."""
        ...


def open_source(path: Path, data: Iterable[Path] = ()) -> RunSource | TraceSource:
    """Opens a run's folder or a trace file.

    Args:
        path: The folder or file.
        data: Datasets of a run, or folders of datasets.

    Raises:
        BeliefRAGError: It cannot be viewed.
    """
    if path.is_dir():
        return RunSource(path, data)
    if path.name == RUN_FILE:
        return RunSource(path.parent, data)
    if not path.exists():
        raise ViewError(
            f"{path} is not there.", remedy="Name the folder of a run, or a file that 'beliefrag ask --trace' wrote."
        )
    return TraceSource(path)


class RunSource:
    """A benchmark run, finished or under way."""

    kind: Literal["run"] = "run"

    def __init__(self, folder: Path, data: Iterable[Path] = ()) -> None:
        run = RunRecord.read(folder)
        self.name = folder.resolve().name
        self.index = RunIndex(folder)
        self._folder = folder
        self._material = Material(data, run.datasets)
        self._replayer = Replayer(run)
        self._summarising = threading.Lock()
        self.index.refresh()
        for name, record in run.datasets.items():
            if not self.index.knows_questions(name, record.gold):
                self._learn(name, record.gold)

    @property
    def record(self) -> RunRecord:
        """What the run was made with, as of now: a run under way can grow."""
        return RunRecord.read(self._folder)

    def overview(self) -> dict[str, Any]:
        """The numbers of the run. They are reckoned again only when the run has grown."""
        with self._summarising:
            run = (self._folder / RUN_FILE).read_bytes()
            state = f"{__version__} {self.index.refresh()} {hashlib.sha256(run).hexdigest()}"
            found: dict[str, Any] | None = self.index.kept_overview(state)
            if found is None:
                found = overview_record(summary_of(self.record, self.index.episodes()))
                self.index.keep_overview(state, found)
            return found

    def episode(self, number: int) -> EpisodeView:
        """One episode, with what its dataset adds."""
        return episode_of_run(self._line(number), number, self.record, self._material)

    def prompts(self, number: int) -> PromptsView:
        """The prompts, made again from the reply cache where that is possible."""
        line = self._line(number)
        try:
            return self._replayer.prompts(line, self._material.benchmark(line["dataset"]).folder)
        except NotHere as error:
            return PromptsView(absent=str(error))

    def close(self) -> None:
        """Lets go of the index and of the reply cache."""
        self._replayer.close()
        self.index.close()

    def _line(self, number: int) -> dict[str, Any]:
        line = self.index.record(number)
        if line is None:
            raise NotHere(f"There is no episode {number} in this run.")
        return line

    def _learn(self, name: str, gold: str) -> None:
        try:
            questions = self._material.benchmark(name).questions
        except NotHere:
            return  # each of its episodes says so
        self.index.learn_questions(name, gold, {each.id: each.question.text for each in questions.values()})


class TraceSource:
    """The one episode of a trace file, which may still be written."""

    kind: Literal["trace"] = "trace"

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        read_trace(path)

    def episode(self, number: int) -> EpisodeView:
        """The episode; its number is 0."""
        _only_zero(number)
        return episode_of(read_trace(self._path))

    def prompts(self, number: int) -> PromptsView:
        """Its prompts: a trace holds them."""
        _only_zero(number)
        return prompts_of(read_trace(self._path))

    def close(self) -> None:
        """Nothing is held."""


class LiveSource:
    """An episode while it happens. Events are fed from the thread that plays it, and read from those that serve.

    Args:
        thresholds: Those in force.
    """

    kind: Literal["live"] = "live"
    name = "beliefrag ask"

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        self._thresholds = thresholds
        self._records: list[Record] = []
        self._lock = threading.Lock()

    @property
    def version(self) -> int:
        """Grows with every event."""
        return len(self._records)

    @property
    def ended(self) -> bool:
        """Whether the last event has come."""
        with self._lock:
            return bool(self._records) and self._records[-1]["event"] == "finished"

    def feed(self, event: Event) -> None:
        """Takes in one event."""
        with self._lock:
            self._records.append(mended(as_record(event)))

    def episode(self, number: int) -> EpisodeView:
        """The episode so far; its number is 0."""
        _only_zero(number)
        return episode_of(self._so_far(), live=True, thresholds=self._thresholds)

    def prompts(self, number: int) -> PromptsView:
        """The prompts of the calls that were made so far."""
        _only_zero(number)
        return prompts_of(self._so_far())

    def close(self) -> None:
        """Nothing is held."""

    def _so_far(self) -> list[Record]:
        with self._lock:
            return list(self._records)


def _only_zero(number: int) -> None:
    if number:
        raise NotHere(f"There is no episode {number} here: the only one has the number 0.")
