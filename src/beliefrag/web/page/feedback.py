"""Keeps what people say about answers, as labelled questions that `beliefrag calibrate` takes."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any, Literal

from beliefrag.errors import SettingsError
from beliefrag.record import Episode
from beliefrag.types import NO_ANSWER
from beliefrag.web.problems import HttpProblem

Verdict = Literal["right", "wrong"]


class FeedbackFile:
    """A file of JSON Lines of labelled questions; the last line of a question counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        folder = path.parent
        if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
            raise SettingsError(
                f"Feedback cannot be kept in {path}: it cannot be written.", remedy="Name another file with --feedback."
            )

    def keep(self, episode: Episode, verdict: Verdict, right_answer: str) -> str:
        """Append a verdict on an answer, with the right answer if it is known, and return what it is kept as."""
        answers, kept_as = _make_label(episode.short_answer or episode.answer, verdict, " ".join(right_answer.split()))
        record: dict[str, Any] = {
            "question": " ".join(episode.asked.split()),
            "answers": answers,
            "feedback": kept_as,
            "given": episode.short_answer or episode.answer,
            "outcome": str(episode.outcome),
            "answerability": episode.answerability,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        try:
            self._append(json.dumps(record).encode("ascii") + b"\n")
        except OSError as error:
            message = f"The feedback could not be kept: {error.strerror}."
            raise HttpProblem(503, "not_kept", message, remedy="Tell the operator of the server.") from None
        return kept_as

    def _append(self, line: bytes) -> None:
        with self._lock, self.path.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                # A line that a full disk or a kill cut off does not take this one with it.
                line = line if file.read(1) == b"\n" else b"\n" + line
            file.write(line)


def _make_label(answer: str | None, verdict: Verdict, right_answer: str) -> tuple[list[str], str]:
    """Return the right answers, as far as they are known, and a name for the kind of feedback."""
    if verdict == "right":
        return ([answer], "right") if answer else ([NO_ANSWER], "rightly declined")
    if right_answer:
        return [right_answer], "corrected"
    return [], "wrong" if answer else "wrongly declined"
