"""One line of a run's episodes as a row of the index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from beliefrag.runs.episode import EpisodeSummary
from beliefrag.runs.episode_format import read_summary, summary_record
from beliefrag.runs.errors import RunError
from beliefrag.web.view.lines import read_line

__all__ = ["UPSERT", "episode_row"]

_KEY = ("dataset", "method", "question_id", "seed")
_NUMBERS = (
    "outcome",
    "correctness",
    "answer",
    "f1",
    "answerability",
    "tokens",
    "calls",
    "rounds",
    "seconds",
    "actions",
)
_COLUMNS = (*_KEY, *_NUMBERS, "cause", "words", "offset", "numbers")
# A line that comes later for the same episode takes its place and keeps its number.
UPSERT = (
    f"INSERT INTO episodes ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "  # noqa: S608 - constants
    f"ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {', '.join(f'{each} = excluded.{each}' for each in _COLUMNS[4:])}"
)


def episode_row(line: bytes, offset: int, path: Path) -> tuple[Any, ...]:
    """The values of `UPSERT` for one line.

    Args:
        line: The line.
        offset: Where it begins in its file.
        path: The file, for the message if it is no episode.

    Raises:
        RunError: It is no episode.
    """
    try:
        record = read_line(line)
        episode = read_summary(record, offset)
        answer, error = record["answer"], (record.get("error") or {}).get("message", "")
        actions = " ".join(step["action"] for step in record["steps"])
        words = f"{episode.key.question_id}\n{answer or ''}\n{episode.cause}\n{error}".casefold()
        return (
            *episode.key,
            episode.outcome,
            _correctness(episode),
            answer,
            episode.metrics.get("f1"),
            record["answerability"],
            episode.usage.tokens,
            episode.usage.calls,
            episode.usage.searches,
            episode.seconds,
            actions,
            episode.cause,
            words,
            offset,
            json.dumps(summary_record(episode), separators=(",", ":")),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(
            f"The line at byte {offset:,} of {path} is no episode.",
            remedy="Delete that line, and give the command of the run again to make up for it.",
        ) from None


def _correctness(episode: EpisodeSummary) -> str:
    """The judge's word where there is one, otherwise F1: all of it, some of it or none."""
    judged, f1 = episode.metrics.get("judge"), episode.metrics.get("f1")
    if judged is not None:
        return "right" if judged >= 0.5 else "wrong"
    if f1 is None:
        return "unscored"
    return "wrong" if f1 <= 0 else "right" if f1 >= 1 else "partly"
