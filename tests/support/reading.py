"""Short ways to write a script and to read a result, for tests of methods."""

from __future__ import annotations

from typing import Any

from beliefrag.events import CallFinished
from beliefrag.result import Result


def says(purpose: str, reply: object, **more: Any) -> dict[str, Any]:
    """A line of a script."""
    return {"purpose": purpose, "reply": reply, **more}


def actions(result: Result) -> list[str]:
    """What was done, in order."""
    return [step["action"] for step in result.record()["steps"]]


def calls(result: Result) -> dict[str, int]:
    """Model calls that were paid for, by purpose."""
    return {purpose: usage.calls for purpose, usage in result.usage.by_purpose.items()}


def prompts(result: Result, purpose: str) -> list[str]:
    """The last message of each call of that purpose."""
    return [e.messages[-1]["content"] for e in result.events if isinstance(e, CallFinished) and e.purpose == purpose]
