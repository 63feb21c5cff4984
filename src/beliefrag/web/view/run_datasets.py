"""Questions, gold answers and passages of a run's datasets, where they are on this machine.

A run names questions and passages by id. The dataset that it was made with is recognised by the hashes in its record:
one that only has the same name could have other gold answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from beliefrag.bench.datasets import is_dataset, load_dataset
from beliefrag.bench.own_questions import OwnDocuments
from beliefrag.bench.perturbation import passages_to_search
from beliefrag.bench.questions import Dataset, LabelledQuestion, gold_hash
from beliefrag.errors import BeliefRAGError
from beliefrag.retrieval.store import CorpusState, passage_digest
from beliefrag.runs.record import DatasetRecord
from beliefrag.types import Passage
from beliefrag.web.view.schema import NotAvailable

_REMEDY = (
    "Give its folder with --data, or set BELIEFRAG_DATA to the folder that holds it; "
    "your own questions and documents with --questions and --docs."
)


@dataclass(frozen=True, slots=True)
class RunDataset:
    """One dataset of a run."""

    questions: Mapping[str, LabelledQuestion]
    passages: Mapping[str, Passage]
    """Empty if the corpus is not the one that the run searched."""
    note: str = ""


class RunDatasets:
    """Loads a run's datasets when they are first needed, from folders or a user's own documents, and keeps them."""

    def __init__(
        self, folders: Iterable[Path], records: Mapping[str, DatasetRecord], own: OwnDocuments | None = None
    ) -> None:
        self._candidates = tuple(_find_datasets(folders))
        self._records = records
        self._own = own
        self._loaded: dict[str, RunDataset | NotAvailable] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> RunDataset:
        """Return the dataset of that name, or raise `NotAvailable`."""
        with self._lock:
            found = self._loaded.get(name) or self._loaded.setdefault(name, self._load(name))
        if isinstance(found, NotAvailable):
            raise found
        return found

    def _load(self, name: str) -> RunDataset | NotAvailable:
        problem = f"The dataset {name} is not here, so its questions, gold answers and passages cannot be shown."
        if (record := self._records.get(name)) is None:
            return NotAvailable(problem)
        for place, load in self._places(name):
            try:
                dataset = load()
            except BeliefRAGError as error:
                problem = error.message
                continue
            if dataset.name != name:
                continue
            if gold_hash(dataset.questions) != record.gold:
                problem = f"The dataset {name} in {place} has other questions or gold answers than the run."
                continue
            searched = passages_to_search(dataset)
            found = CorpusState.from_sum(len(searched), sum(map(passage_digest, searched))).fingerprint
            questions = {question.id: question for question in dataset.questions}
            if found == record.fingerprint:
                return RunDataset(questions, {passage.id: passage for passage in dataset.passages})
            note = f"The corpus of {name} is not the one that the run searched: passages are not shown."
            return RunDataset(questions, {}, note)
        return NotAvailable(problem, remedy=_REMEDY)

    def _places(self, name: str) -> Iterator[tuple[str, Callable[[], Dataset]]]:
        """Yield where the dataset may be, each place with what loads it: what was named comes first."""
        if self._own is not None:
            yield self._own.questions.name, self._own.load
        same_name = [folder for folder in self._candidates if folder.resolve().name == name]
        for folder in same_name or self._candidates:
            yield folder.name, partial(load_dataset, folder)


def _find_datasets(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        if is_dataset(folder):
            yield folder
        elif folder.is_dir():
            yield from (inner for inner in sorted(folder.iterdir()) if inner.is_dir() and is_dataset(inner))
