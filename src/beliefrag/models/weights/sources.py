"""What a source of weights looks like, and which ones there are."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from beliefrag.errors import TransportError
from beliefrag.models.weights.aside import Aside
from beliefrag.models.weights.catalogue import Weights

__all__ = ["Source", "SourceError", "SourceName"]


class SourceName(StrEnum):
    """The sources by the names that a person types."""

    HUB = "hub"
    REGISTRY = "registry"


class SourceError(TransportError):
    """This source cannot deliver at the moment; another one may."""


class Source(Protocol):
    """A place that weights can be fetched from. It delivers bytes; whether they are right is for the hash to say."""

    @property
    def name(self) -> SourceName:
        """The name that a person types."""
        ...

    def has(self, weights: Weights) -> bool:
        """Whether the catalogue knows these weights at this source. No network."""
        ...

    def describe(self, weights: Weights) -> str:
        """Where the bytes will come from, in words for a person who has to agree to it."""
        ...

    def scratch(self, weights: Weights) -> int:
        """Bytes of disk needed on the way, besides the weights themselves."""
        ...

    def check(self, weights: Weights) -> None:
        """Returns when the source can be used, within a few seconds.

        Raises:
            SourceError: It cannot.
        """
        ...

    def fetch(self, weights: Weights, aside: Aside) -> None:
        """Appends what is missing.

        Raises:
            SourceError: It could not be had, or not all of it.
        """
        ...
