"""What an agent may give the tools, and how far."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from beliefrag.web.http.limits import Limits
from beliefrag.web.http.problems import Problem
from beliefrag.web.http.request_settings import BudgetWishes, Wishes

__all__ = ["MOST_PASSAGES", "Arguments", "AskArguments", "SearchArguments", "input_schema", "read"]

MOST_PASSAGES = 20
"""The most that one search gives: more would fill an agent's context with text that nobody ranked high."""

_Some = TypeVar("_Some", bound="Arguments")


class Arguments(BaseModel):
    """What every tool is given: some text, first of all."""

    model_config = ConfigDict(extra="forbid")

    @property
    def text(self) -> str:
        """The first argument."""
        raise NotImplementedError


class AskArguments(Arguments):
    """A question, and what may be different for it."""

    question: str = Field(description="The question, in full: it is answered without the conversation around it.")
    max_error: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Decline rather than let more than this share of the answers be wrong; needs a guarantee in the "
        "server's calibration.",
    )
    budget: BudgetWishes = Field(default=BudgetWishes(), description="Less than the server's own budget, if wanted.")

    @property
    def text(self) -> str:
        """The question."""
        return self.question

    def wishes(self) -> Wishes | None:
        """The same as settings of one request; None where nothing was asked for."""
        if self.max_error is None and self.budget == BudgetWishes():
            return None
        return Wishes(budget=self.budget, max_error=self.max_error)


class SearchArguments(Arguments):
    """Words to look for, and how many passages to give."""

    query: str = Field(description="Words to look for. They are ranked by BM25; there is no query syntax.")
    k: int = Field(default=5, ge=1, le=MOST_PASSAGES, description="How many passages to give, best first.")

    @property
    def text(self) -> str:
        """The query."""
        return self.query


def input_schema(model: type[Arguments], limits: Limits) -> dict[str, Any]:
    """The schema that an agent sees, with this server's bound on the length of its text."""
    schema = model.model_json_schema()
    text = next(iter(schema["properties"].values()))
    text |= {"minLength": 1, "maxLength": limits.question_chars}
    return schema


def read(model: type[_Some], given: dict[str, Any] | None, limits: Limits) -> _Some:
    """What an agent gave. Its values are not repeated in the error: they are its own, and may be long.

    Raises:
        Problem: Something is missing, unknown, too long or out of bounds.
    """
    try:
        arguments = model.model_validate(given or {})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Problem(422, "invalid", f"{place}: {first['msg']}.") from None
    if not arguments.text.strip():
        raise Problem(422, "empty", "The text is empty.", remedy="Ask something.")
    if len(arguments.text) > limits.question_chars:
        raise Problem(
            422,
            "too_long",
            f"The text has {len(arguments.text):,} characters.",
            remedy=f"Ask with at most {limits.question_chars:,}.",
        )
    return arguments
