"""The episodes of traces, of runs, and of questions that are being asked, as the pages show them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from beliefrag.record import CallStarted, Episode, Failure, Outcome, Progress, Step
from beliefrag.runs.record import RunRecord, budget_of, thresholds_of
from beliefrag.types import Passage, Question
from beliefrag.web.view.run_datasets import RunDatasets
from beliefrag.web.view.schema import EpisodeView, GoldView, NotAvailable, ViewError, view_record


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
            if line.startswith(b'{"number":'):
                episode = episode.add(Step.model_validate_json(line))
            else:
                episode = Episode.model_validate_json(line)
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


def view_run_episode(episode: Episode, number: int, run: RunRecord, datasets: RunDatasets) -> EpisodeView:
    """Return an episode of a run as the pages show it, with what its dataset adds where that is on this machine."""
    key = episode.key
    notes: list[str] = []
    passages: Mapping[str, Passage] = {}
    question, gold = episode.question, None
    try:
        dataset = datasets.get(key.dataset)
        notes += [dataset.note] if dataset.note else []
        passages = dataset.passages
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
            "budget": budget_of(run),
            "thresholds": asdict(thresholds_of(run)),
        }
    )
    licence = run.datasets[key.dataset].licence if key.dataset in run.datasets else ""
    return view_record(whole, "run", number=number, passages=passages, gold=gold, notes=notes, licence=licence)


class GrowingEpisode:
    """An episode that runs now. The thread that runs it adds to it, and the threads that serve pages read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = "it to begin"
        self.record: Episode | None = None
        """The episode so far; None before it begins."""
        self.version = 0
        """Grows by one with everything that is added."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.record is not None and self.record.outcome is not None

    def add(self, progress: Progress) -> None:
        """Take in what the loop yields."""
        with self._lock:
            self._waiting = "the next step"
            if isinstance(progress, CallStarted):
                self._waiting = f"the model ({progress.purpose.replace('_', ' ')})"
            elif isinstance(progress, Episode):
                self.record = progress
            elif self.record is not None:
                self.record = self.record.add(progress)
            self.version += 1

    def view(self, origin: Literal["live", "run"] = "live", *, number: int = 0) -> EpisodeView:
        """Return it as far as it goes."""
        with self._lock:
            record = self.record or Episode(method="", question=Question(""))
            return view_record(record, origin, number=number, waiting="" if self.ended else self._waiting)
