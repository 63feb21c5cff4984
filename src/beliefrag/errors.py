"""The errors that BeliefRAG raises on purpose.

Every error that BeliefRAG raises on purpose derives from `BeliefRAGError`. The message is one line: what was wrong,
with which value. `remedy` is the next thing to do. The command line prints both and exits; it never prints a
traceback for these unless asked with `--debug`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "BeliefRAGError",
    "CalibrationError",
    "CorpusError",
    "MissingExtra",
    "ModelError",
    "ReplayMiss",
    "ReplyError",
    "RetrievalError",
    "SettingsError",
    "TokensSpent",
    "TransportError",
    "UnreadableReply",
    "explain_missing_extra",
]


class BeliefRAGError(Exception):
    """Base of every error raised on purpose.

    Args:
        message: What was wrong, with which value, in one line.
        remedy: What to do next, in one line; empty when there is nothing to say.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()


class SettingsError(BeliefRAGError):
    """A setting, option or file that the user gave cannot be used."""


class MissingExtra(SettingsError, ImportError):
    """A part needs a library that is not installed by default. It is an ImportError too, and can be caught as one.

    Args:
        what: The part that needs it, as it stands at the beginning of a sentence.
        extra: The name of our extra that brings the library.
        error: The error of importing it.
    """

    def __init__(self, what: str, extra: str, error: ImportError) -> None:
        super().__init__(
            f"{what} needs a library that cannot be imported: {error}.", remedy=f"pip install 'beliefrag[{extra}]'"
        )


@contextmanager
def explain_missing_extra(what: str, extra: str) -> Iterator[None]:
    """Wraps imports of optional libraries: where one is missing, the error says which extra brings it.

    Args:
        what: The part that needs them, as it stands at the beginning of a sentence.
        extra: The name of our extra.

    Raises:
        MissingExtra: A library cannot be imported.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtra(what, extra, error) from error


class CorpusError(BeliefRAGError):
    """Documents or an index cannot be read or written."""


class RetrievalError(BeliefRAGError):
    """A search failed."""


class CalibrationError(BeliefRAGError):
    """A calibration artifact is missing, unreadable or belongs to something else."""


class ModelError(BeliefRAGError):
    """A model cannot be used: unknown name, missing weights, rejected request."""


class TransportError(ModelError):
    """A model server did not give a usable reply.

    Args:
        message: What happened, in one line.
        remedy: What to do next.
        status: The HTTP status, where there was one.
        retryable: Whether asking again may help.
        retry_after: Seconds the server asked us to wait, where it said so.
    """

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after


class ReplyError(ModelError):
    """A model replied, but with nothing that can be used."""


class UnreadableReply(ReplyError):
    """A reply was asked for twice and could not be read either time."""


class TokensSpent(BeliefRAGError):
    """A call was not begun because the token budget of the episode does not reach for it.

    The loop then allows only an end, or the search for a query that was paid for before.
    """


class ReplayMiss(ModelError):
    """A replay asked for a reply that the cache does not hold."""
