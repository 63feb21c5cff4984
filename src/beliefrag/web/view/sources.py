"""What can be viewed: a run, a trace, or an episode that runs now."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from pydantic import BaseModel

from beliefrag._version import __version__
from beliefrag.bench.own_questions import OwnDocuments
from beliefrag.record import Episode
from beliefrag.runs.record import RUN_FILE, RunRecord
from beliefrag.runs.summary import summarise_episodes
from beliefrag.web.view.episodes import GrowingEpisode, read_trace, view_run_episode
from beliefrag.web.view.index import RunIndex
from beliefrag.web.view.replay import PromptReplayer
from beliefrag.web.view.run_datasets import RunDatasets
from beliefrag.web.view.run_page import RunAnalysis, RunOverview, analyse_run, view_run
from beliefrag.web.view.schema import EpisodeView, NotAvailable, PromptsView, ViewError, view_prompts, view_record

_Result = TypeVar("_Result", bound=BaseModel)


class EpisodeSource(Protocol):
    """What the pages read episodes from, by number."""

    @property
    def kind(self) -> Literal["run", "trace", "live", "page"]:
        """Where the episodes come from."""
        ...

    @property
    def name(self) -> str:
        """Its name for a person."""
        ...

    def episode(self, number: int) -> EpisodeView:
        """Return one episode without its prompts."""
        ...

    def prompts(self, number: int) -> PromptsView:
        """Return the prompts of its calls, or why they are missing."""
        ...

    def close(self) -> None:
        """Close files."""
        ...


def open_source(path: Path, data: Iterable[Path] = (), own: OwnDocuments | None = None) -> RunSource | TraceSource:
    """Open a run's folder or a trace file.

    Args:
        path: The folder or file.
        data: Datasets of a run, or folders of datasets.
        own: The questions and documents of a run over a user's own; a run holds no path to them.
    """
    if path.is_dir():
        return RunSource(path, data, own)
    if path.name == RUN_FILE:
        return RunSource(path.parent, data, own)
    if not path.exists():
        raise ViewError(
            f"{path} does not exist.",
            remedy="Name the folder of a run, or a file that 'beliefrag ask --trace' wrote.",
        )
    return TraceSource(path)


class RunSource:
    """A benchmark run, finished or running."""

    kind: Literal["run"] = "run"

    def __init__(self, folder: Path, data: Iterable[Path] = (), own: OwnDocuments | None = None) -> None:
        run = RunRecord.read(folder)
        self.name = folder.resolve().name
        self.index = RunIndex(folder)
        self._folder = folder
        self._datasets = RunDatasets(data, run.datasets, own)
        self._replayer = PromptReplayer(run)
        self._summarising = threading.Lock()
        self.index.refresh()
        for name, record in run.datasets.items():
            if not self.index.has_questions(name, record.gold):
                self._store_questions(name, record.gold)

    @property
    def record(self) -> RunRecord:
        """The run's record as it is now, because a running run can grow."""
        return RunRecord.read(self._folder)

    @property
    def state(self) -> str:
        """Something that changes when the run has grown."""
        run = (self._folder / RUN_FILE).read_bytes()
        return f"{__version__} {self.index.refresh()} {hashlib.sha256(run).hexdigest()}"

    def overview(self) -> RunOverview:
        """Return the numbers of the run. They are computed again only when the run has grown."""

        def compute() -> RunOverview:
            return view_run(summarise_episodes(self.record, self.index.episodes()))

        return self._load_or_compute("overview", RunOverview, compute)

    def analysis(self) -> RunAnalysis:
        """Return differences, ties and confidences. They are computed again only when the run has grown."""

        def compute() -> RunAnalysis:
            return analyse_run(self.record, self.index.episodes(), self.index.answerabilities())

        return self._load_or_compute("analysis", RunAnalysis, compute)

    def episode(self, number: int) -> EpisodeView:
        """Return one episode, with what its dataset adds."""
        return view_run_episode(self._episode(number), number, self.record, self._datasets)

    def prompts(self, number: int) -> PromptsView:
        """Return the prompts, rebuilt from the reply cache where that is possible."""
        episode = self._episode(number)
        try:
            return self._replayer.prompts(episode, self._datasets.get(episode.key.dataset).dataset)
        except NotAvailable as error:
            return PromptsView(absent=str(error))

    def close(self) -> None:
        """Close the index and the reply cache."""
        self._replayer.close()
        self.index.close()

    def _episode(self, number: int) -> Episode:
        episode = self.index.episode(number)
        if episode is None:
            raise NotAvailable(f"There is not an episode {number} in this run.")
        return episode

    def _store_questions(self, name: str, gold: str) -> None:
        try:
            questions = self._datasets.get(name).questions
        except NotAvailable:
            return  # each of its episodes says so
        self.index.store_questions(name, gold, questions.values())

    def _load_or_compute(self, name: str, kind: type[_Result], compute: Callable[[], _Result]) -> _Result:
        with self._summarising:
            state = self.state
            if (stored := self.index.stored_result(name, state)) is not None:
                return kind.model_validate_json(stored)
            result = compute()
            self.index.store_result(name, state, result.model_dump_json())
            return result


class TraceSource:
    """The one episode of a trace file, which may still grow."""

    kind: Literal["trace"] = "trace"

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        read_trace(path)

    @property
    def state(self) -> str:
        """Something that changes when the file has grown."""
        try:
            return str(self._path.stat().st_size)
        except OSError as error:
            raise ViewError(f"{self._path} cannot be read: {error.strerror}.") from error

    def episode(self, number: int) -> EpisodeView:
        """Return the episode; its number is 0."""
        _check_zero(number)
        return view_record(read_trace(self._path), "trace")

    def prompts(self, number: int) -> PromptsView:
        """Return its prompts, which a trace holds."""
        _check_zero(number)
        return view_prompts(read_trace(self._path), "as they were sent")

    def close(self) -> None:
        """Close nothing: no file stays open."""


class LiveSource(GrowingEpisode):
    """An episode that a command asks now."""

    kind: Literal["live"] = "live"
    name = "beliefrag ask"

    def episode(self, number: int) -> EpisodeView:
        """Return the episode so far; its number is 0."""
        _check_zero(number)
        return self.view()

    def prompts(self, number: int) -> PromptsView:
        """Return the prompts of the calls so far."""
        _check_zero(number)
        return view_prompts(self.record, "as they were sent") if self.record else PromptsView()

    def close(self) -> None:
        """Close nothing: no file stays open."""


def _check_zero(number: int) -> None:
    if number:
        raise NotAvailable(f"There is not an episode {number} here: the only one has the number 0.")
