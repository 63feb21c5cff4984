"""When a run is given up: a server that is gone must not cost a night, and what fails every time must block nothing."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.errors import TransportError

__all__ = ["GIVE_UP_AFTER", "CircuitBreaker"]

GIVE_UP_AFTER = 24
"""So many failures one after another, with nothing that went well in between, are no accident."""


@dataclass(slots=True)
class CircuitBreaker:
    """The failures since something last went well, without those that are no news."""

    length: int = 0
    _anything_went_well: bool = False

    @property
    def hopeless(self) -> bool:
        """Whether to give up."""
        return self.length >= GIVE_UP_AFTER

    def went_well(self) -> None:
        """Ends the streak."""
        self.length = 0
        self._anything_went_well = True

    def failed(self, cause: str, *, before: str, replies: int) -> None:
        """Takes in a failure.

        One with the cause that the same episode failed with before is no news, such as that of a method that needs what
        the model does not give: counted, a few dozen of them would end every attempt to go on. It counts all the same
        where the server gave no usable reply, and where there is no sign yet that the model is there at all.

        Args:
            cause: Why it failed now.
            before: Why it failed when it was last tried; empty if it did not, or was not.
            replies: How many the model gave before it failed.
        """
        known = cause == before and cause != TransportError.__name__
        if not (known and (self._anything_went_well or replies)):
            self.length += 1
