"""What can be viewed: a run or a trace."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from beliefrag.bench.own_questions import OwnDocuments
from beliefrag.record import Episode, Failure, Outcome, Step
from beliefrag.runs.record import RUN_FILE, RunRecord, thresholds_of
from beliefrag.runs.summary import summarise_episodes
from beliefrag.types import Passage
from beliefrag.web.view.index import RunIndex
from beliefrag.web.view.run_datasets import RunDatasets
from beliefrag.web.view.run_page import view_run
from beliefrag.web.view.schema import (
    EpisodeView,
    GoldView,
    NotAvailable,
    ViewError,
    view_record,
)

_Kind = Literal["run", "trace", "page"]


class EpisodeSource(ABC):
    """What the pages read episodes from, by number."""

    kind: _Kind
    name: str

    @property
    def state(self) -> str:
        """Something that changes when there is more to show."""
        return ""

    @abstractmethod
    def episode(self, number: int) -> EpisodeView:
        """Return one episode, or raise `NotAvailable`."""

    def close(self) -> None:  # noqa: B027 - most have no files
        """Close files."""


def open_source(path: Path, data: Iterable[Path] = (), own: OwnDocuments | None = None) -> RunSource | TraceSource:
    """Open a run's folder, with datasets, folders of datasets or a user's own documents, or open a trace file."""
    if path.is_dir() or path.name == RUN_FILE:
        return RunSource(path if path.is_dir() else path.parent, data, own)
    if not path.exists():
        raise ViewError(
            f"{path} does not exist.",
            remedy="Name the folder of a run, or a file that 'beliefrag ask --trace' wrote.",
        )
    return TraceSource(path)


class RunSource(EpisodeSource):
    """A benchmark run, finished or running."""

    kind = "run"

    def __init__(self, folder: Path, data: Iterable[Path] = (), own: OwnDocuments | None = None) -> None:
        self._folder, self.name = folder, folder.resolve().name
        self.index = RunIndex(folder)
        run = self.record
        self._datasets = RunDatasets(data, run.datasets, own)
        self._summarising = threading.Lock()
        self._overview: tuple[str, dict[str, Any]] | None = None
        self.index.refresh()
        for name, record in run.datasets.items():
            with contextlib.suppress(NotAvailable):
                if not self.index.has_questions(name, record.gold):
                    self.index.store_questions(name, record.gold, self._datasets.get(name).questions.values())

    @property
    def record(self) -> RunRecord:
        """The run's record as it is now, because a running run can grow."""
        return RunRecord.read(self._folder)

    @property
    def state(self) -> str:
        """What shows that the files have changed."""
        run = (self._folder / RUN_FILE).read_bytes()
        return f"{self.index.refresh()} {hashlib.sha256(run).hexdigest()}"

    def overview(self) -> dict[str, Any]:
        """Return the numbers of the run, computed again when it has grown: on a large run that takes seconds."""
        with self._summarising:
            state = self.state
            if self._overview is None or self._overview[0] != state:
                self._overview = state, view_run(summarise_episodes(self.record, self.index.episodes()))
            return self._overview[1]

    def episode(self, number: int) -> EpisodeView:
        """Return one episode, with what its dataset adds if that is on this machine."""
        episode, run, notes = self.index.episode(number), self.record, list[str]()
        key, question, gold = episode.key, episode.question, None
        passages: Mapping[str, Passage] = {}
        try:
            dataset = self._datasets.get(key.dataset)
            passages = dataset.passages
            notes += [dataset.note] if dataset.note else []
            if (labelled := dataset.questions.get(key.question_id)) is not None:
                question = labelled.question
                gold = GoldView(answers=labelled.gold.answers, supporting=labelled.gold.supporting)
        except NotAvailable as missing:
            notes.append(str(missing))
        setup = run.setups.get(key.method)
        calibration = {"calibration": setup.calibration.name} if setup and setup.calibration else {}
        whole = episode.model_copy(
            update={
                "question": question,
                "model": run.model,
                "verifier": setup.verifier if setup else run.verifier,
                "made_with": {"retriever": run.searched_with} | calibration,
                "budget": run.budget,
                "thresholds": asdict(thresholds_of(run)),
            }
        )
        licence = run.datasets[key.dataset].licence if key.dataset in run.datasets else ""
        return view_record(whole, "run", passages, gold, id=number, notes=tuple(notes), licence=licence)

    def close(self) -> None:
        """Close the index."""
        self.index.close()


class TraceSource(EpisodeSource):
    """The one episode of a trace file, which may still grow."""

    kind = "trace"

    def __init__(self, path: Path) -> None:
        self._path, self.name = path, path.name
        read_trace(path)

    @property
    def state(self) -> str:
        """The size of the file."""
        try:
            return str(self._path.stat().st_size)
        except OSError as error:
            raise ViewError(f"{self._path} cannot be read: {error.strerror}.") from error

    def episode(self, number: int) -> EpisodeView:
        """Return the episode; its number is 0."""
        if number:
            raise NotAvailable(f"Only episode 0 exists here, not episode {number}.")
        return view_record(read_trace(self._path), "trace")


def read_trace(path: Path) -> Episode:
    """Read the episode of a trace file: as it ended, or as far as a file goes that is cut off."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise ViewError(f"{path} cannot be read: {error.strerror}.") from error
    try:
        if not lines:
            raise ValueError("it is empty")
        episode = Episode.model_validate_json(lines[0])
        for line in lines[1:]:
            is_step = line.startswith(b'{"number":')
            episode = episode.add(Step.model_validate_json(line)) if is_step else Episode.model_validate_json(line)
    except ValueError as error:
        first = error.errors(include_url=False)[0] if isinstance(error, ValidationError) else {"msg": error}
        raise ViewError(
            f"{path} is not a trace of this version: {first['msg']}.",
            remedy="Name a file that 'beliefrag ask --trace' wrote, or the folder of a run.",
        ) from None
    if episode.outcome is None:
        torn = Failure(cause="torn", message="The trace ends before the end of the episode.")
        episode = episode.model_copy(update={"outcome": Outcome.FAILED, "error": torn})
    return episode
