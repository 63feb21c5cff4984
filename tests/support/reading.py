"""Short ways to write a script and to read a result, for tests of methods."""

from __future__ import annotations

from typing import Any

from beliefrag.explanation import describe_reason
from beliefrag.record import Episode


def says(purpose: str, reply: object, **more: Any) -> dict[str, Any]:
    """Return a line of a script."""
    return {"purpose": purpose, "reply": reply, **more}


def actions(result: Episode) -> list[str]:
    """Return what was done, in order."""
    return [step.action for step in result.steps]


def calls(result: Episode) -> dict[str, int]:
    """Model calls that were paid for, by purpose."""
    return {purpose: usage.calls for purpose, usage in result.usage.by_purpose.items()}


def prompts(result: Episode, purpose: str) -> list[str]:
    """Return the last message of each call of that purpose."""
    return [e.messages[-1]["content"] for e in result.calls if e.purpose == purpose]


def why(result: Episode) -> str:
    """Return the reason of the last step in words, with the numbers that it compared; the error of a failed episode."""
    if result.error:
        return result.error.message
    last = result.steps[-1]
    return "; ".join([describe_reason(last.reason, last.comparisons), *map(str, last.comparisons)])
