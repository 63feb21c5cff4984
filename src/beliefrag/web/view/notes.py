"""Notes that somebody makes on episodes, kept in one file beside the run's own.

A new file is written and renamed, so a kill leaves the old notes or the new ones. It is read again before each
change, under a lock, so that two viewers of one run do not undo each other.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beliefrag.errors import BeliefRAGError, ModelError
from beliefrag.file_lock import hold_lock
from beliefrag.runs.episode import EpisodeKey
from beliefrag.web.view.sanitise import replace_lone_surrogates
from beliefrag.web.view.schema import ViewError

__all__ = ["LONGEST_NOTE", "NOTES_FILE", "NoteChanged", "RunNotes"]

NOTES_FILE = "notes.json"
LONGEST_NOTE = 4_000
"""Characters of one note."""
_MOST_BYTES = 8_000_000
"""Bytes that the file may have: a page reads all of it."""
_READ_ONLY = "Copy the run to a folder of your own."


class NoteChanged(BeliefRAGError):
    """Somebody else changed the note in the meantime."""


class _Note(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    method: str
    question_id: str
    seed: int
    text: str = Field(max_length=LONGEST_NOTE)
    changed: str
    """When, in UTC."""

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(self.dataset, self.method, self.question_id, self.seed)


class _NotesFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    notes: tuple[_Note, ...] = ()


class RunNotes:
    """The notes on the episodes of one run.

    Args:
        folder: The folder of the run.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / NOTES_FILE
        self._lock = threading.Lock()

    def read(self) -> dict[EpisodeKey, str]:
        """Gives all notes by their episode.

        Raises:
            ViewError: The file is there and cannot be read.
        """
        return {note.key: note.text for note in self._read_file()}

    def write(self, key: EpisodeKey, text: str, before: str) -> None:
        """Puts a note in the place of the one before; an empty text removes it.

        Args:
            key: The episode.
            text: The note.
            before: The note that its writer saw.

        Raises:
            NoteChanged: The note is another one by now.
            ViewError: The file cannot be read or written, or would be too large.
        """
        try:
            with self._lock, hold_lock(self._path.with_name(f"{NOTES_FILE}.lock")):
                self._change(key, replace_lone_surrogates(text.strip()), before.strip())
        except ModelError as error:
            raise ViewError(error.message, remedy=_READ_ONLY) from None

    def _change(self, key: EpisodeKey, text: str, before: str) -> None:
        notes = {note.key: note for note in self._read_file()}
        if (notes[key].text if key in notes else "") != before:
            raise NoteChanged(
                "The note was changed elsewhere in the meantime.", remedy="Copy yours and load the page again."
            )
        notes.pop(key, None)
        if text:
            changed = datetime.now(UTC).isoformat(timespec="seconds")
            notes[key] = _Note(**key._asdict(), text=text, changed=changed)
        self._write_file(_NotesFile(notes=tuple(notes.values())))

    def _read_file(self) -> tuple[_Note, ...]:
        try:
            return _NotesFile.model_validate_json(self._path.read_bytes()).notes
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ViewError(f"{self._path} cannot be read: {error.strerror}.") from error
        except ValidationError:
            raise ViewError(
                f"{self._path} does not hold notes.", remedy="Move the file away, or mend it by hand."
            ) from None

    def _write_file(self, notes: _NotesFile) -> None:
        data = json.dumps(notes.model_dump(), indent=1, ensure_ascii=False).encode() + b"\n"
        if len(data) > _MOST_BYTES:
            raise ViewError(f"The notes of a run can have {_MOST_BYTES:,} bytes.", remedy="Shorten or remove some.")
        unfinished = self._path.with_name(f"{NOTES_FILE}.new")
        try:
            with unfinished.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._path)
        except OSError as error:
            raise ViewError(f"{self._path} cannot be written: {error.strerror}.", remedy=_READ_ONLY) from error
