"""The errors that BeliefRAG raises on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class BeliefRAGError(Exception):
    """Base of every error raised on purpose: what was wrong, with which value, and the next thing to do."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        if remedy and message[-1:] not in ".!?:\u2026":
            message += "."  # what a server or a library said often has none
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()


class SettingsError(BeliefRAGError):
    """A setting, option or file that the user gave cannot be used."""


class MissingExtra(SettingsError, ImportError):
    """A part needs a library that is not installed by default; see `explain_missing_extra`."""

    def __init__(self, what: str, extra: str, error: ImportError) -> None:
        super().__init__(
            f"{what} needs a library that cannot be imported: {error}.", remedy=f"pip install 'beliefrag[{extra}]'"
        )


@contextmanager
def explain_missing_extra(what: str, extra: str) -> Iterator[None]:
    """Wrap imports of optional libraries: if one is missing, raise `MissingExtra` with the extra to install."""
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
    """A model server did not return a usable reply; `retry_after` is the seconds that it asked to wait."""

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
    """A model replied with nothing that can be used."""


class UnreadableReply(ReplyError):
    """A reply was requested twice and could not be read either time."""


class TokensSpent(BeliefRAGError):
    """The token budget is too small for a call: only an end, or a search that was paid for, is possible."""


class ReplayMiss(ModelError):
    """A replay needs a reply that is not in the cache."""
