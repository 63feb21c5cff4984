"""What the exit code of a command means."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beliefrag.outcome import Outcome

__all__ = ["ABSTAINED", "FAILED", "INTERRUPTED", "OK", "TERMINATED", "USAGE", "exit_code"]

OK = 0
"""An answer was given, or the command did what it was asked to."""
FAILED = 1
USAGE = 2
"""A flag, a setting or a file of settings cannot be used."""
ABSTAINED = 3
INTERRUPTED = 130
TERMINATED = 143


def exit_code(outcome: Outcome) -> int:
    """Gives the exit code that tells a script how a question ended."""
    from beliefrag.errors import SettingsError  # noqa: PLC0415 - `beliefrag --help` does not wait for them
    from beliefrag.outcome import Abstained, Failed  # noqa: PLC0415

    if isinstance(outcome, Failed):
        return USAGE if outcome.cause == SettingsError.__name__ else FAILED
    return ABSTAINED if isinstance(outcome, Abstained) else OK
