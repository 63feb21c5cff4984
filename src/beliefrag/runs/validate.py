"""Whether a line of `episodes.jsonl` can be counted: a damaged one must never become a number.

Lines are checked one by one where they are read, by plain comparisons: a run can have tens of thousands of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from beliefrag.outcome import Abstained, Answered, Failed, Stopped

__all__ = ["amount", "check_episode", "share", "why"]

_OUTCOMES = frozenset(kind.name for kind in (Answered, Stopped, Abstained, Failed))
_ANSWER_SCORES = ("exact_match", "f1", "cover")
_METRICS = (*_ANSWER_SCORES, "evidence_recall", "answer_row_recall", "judge", "rounds", "actions")
"""What every finished episode has, if only as null where it has no meaning."""
_NOT_SHARES = frozenset({"rounds", "actions", "rows_needed", "rows_read", "false_read"})
_USAGE = ("calls", "tokens", "tokens_in", "tokens_out", "searches")
_JUDGE_USAGE = ("calls", "tokens", "tokens_in", "tokens_out")


def check_episode(record: Mapping[str, Any]) -> None:
    """Makes sure that an episode is one: how it ended, what a finished one must have, and every number in its range.

    Raises:
        ValueError: It is not; the message says what is wrong.
        KeyError: Something is not there at all.
        TypeError: Something is of another kind altogether.
    """
    if record["outcome"] not in _OUTCOMES:
        raise ValueError(f"its outcome is {record['outcome']!r:.40}")
    for name in ("dataset", "method", "question_id"):
        if not isinstance(record[name], str):
            raise TypeError(f"{name} is no text")
    amount("seed", record["seed"])
    amount("timing.model_seconds", record["timing"]["model_seconds"])
    _check_usage("usage", record["usage"], _USAGE)
    for purpose, part in record["usage"].get("by_purpose", {}).items():
        _check_usage(f"usage.by_purpose.{purpose:.40}", part, ("calls",))
    if (judge := record["judge"]) is not None:
        if judge["correct"] not in (True, False, None):
            raise ValueError(f"judge.correct is {judge['correct']!r:.40}")
        _check_usage("judge.usage", judge["usage"], _JUDGE_USAGE)
    for name, value in record["metrics"].items():
        if value is not None:
            (amount if name in _NOT_SHARES else share)(name, value)
    if record["outcome"] == Failed.name:
        if not isinstance(record["error"]["cause"], str):
            raise TypeError("error.cause is no text")
    else:
        _check_finished(record["metrics"])


def share(name: str, value: Any) -> float:
    """The value, if it is a number from 0 to 1.

    Raises:
        ValueError: It is not.
    """
    if type(value) not in (float, int) or not 0 <= value <= 1:
        raise ValueError(f"{name} is {value!r:.40}, not a number from 0 to 1")
    return float(value)


def amount(name: str, value: Any) -> float:
    """The value, if it is a number from 0 up that is not infinite.

    Raises:
        ValueError: It is not.
    """
    if type(value) not in (float, int) or not 0 <= value < math.inf:
        raise ValueError(f"{name} is {value!r:.40}, not a number from 0 up")
    return float(value)


def why(error: Exception) -> str:
    """What an error of a check or of a broken line says, in words."""
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def _check_finished(metrics: Mapping[str, Any]) -> None:
    for name in _METRICS:
        if name not in metrics:
            raise ValueError(f"it finished without the metric {name}")
    # A question about a set of rows has another score than one about a fact; every question has one of the two.
    scores = [metrics[name] for name in _ANSWER_SCORES]
    if None in scores and (metrics["answer_row_recall"] is None or scores != [None, None, None]):
        raise ValueError("it finished without a score")
    for name in ("rounds", "actions"):
        amount(name, metrics[name])


def _check_usage(where: str, usage: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        if type(usage[name]) is not int or usage[name] < 0:
            raise ValueError(f"{where}.{name} is {usage[name]!r:.40}, not a count")
