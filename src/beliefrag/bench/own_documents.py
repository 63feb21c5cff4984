"""Remembers, on this machine, from which files a dataset of somebody's own questions and documents was made.

A run names questions and passages by id, and holds no path: it can be given away, and a path can hold a name. So the
paths are kept in the cache folder, under the hashes that the run's record has. `beliefrag view` finds them there.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from beliefrag.bench.datasets.user_questions import load_user_questions
from beliefrag.bench.questions import Dataset, gold_hash
from beliefrag.paths import cache_dir
from beliefrag.retrieval import docs_index

__all__ = ["OwnDocuments", "find_own_documents"]


@dataclass(frozen=True, slots=True)
class OwnDocuments:
    """A file of one's own questions with answers (CSV, TSV or JSON Lines), and the documents to answer them from."""

    questions: Path
    docs: tuple[Path, ...]

    def load(self) -> Dataset:
        """Reads both as a dataset, and remembers where they are.

        Raises:
            DataError: The questions cannot be used.
            CorpusError: The documents cannot be used.
        """
        index, _ = docs_index(self.docs, cache_dir())
        dataset = load_user_questions(self.questions, index.first(len(index)))
        self._remember(_note_path(gold_hash(dataset.questions), index.fingerprint))
        return dataset

    def _remember(self, note: Path) -> None:
        paths = {"questions": os.path.realpath(self.questions), "docs": [os.path.realpath(each) for each in self.docs]}
        unfinished = note.with_name(f"{note.name}.{os.getpid()}.new")
        try:
            note.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_text(json.dumps(paths), encoding="utf-8")
            unfinished.replace(note)
        except OSError:
            return  # the viewer then asks for the paths


def find_own_documents(gold: str, fingerprint: str) -> OwnDocuments | None:
    """Finds the files that a dataset with these hashes was made from; None where this machine does not know them.

    Args:
        gold: The hash of its questions with their answers.
        fingerprint: The fingerprint of its passages.
    """
    try:
        paths = json.loads(_note_path(gold, fingerprint).read_bytes())
        return OwnDocuments(Path(paths["questions"]), tuple(Path(each) for each in paths["docs"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _note_path(gold: str, fingerprint: str) -> Path:
    name = hashlib.sha256(f"{gold} {fingerprint}".encode()).hexdigest()[:32]
    return cache_dir() / "own_documents" / f"{name}.json"
