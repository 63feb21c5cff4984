"""What one request may set for itself: never more than the server allows, and never a weaker guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.errors import BeliefRAGError
from beliefrag.opening import Assembly, change_policy
from beliefrag.retrieval.filters import PATH, names_in, parse_filter
from beliefrag.settings import AnswerStyle
from beliefrag.types import Turn
from beliefrag.web.problems import HttpProblem
from beliefrag.web.service import AnswerService, answer_key

_OpenShare = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class StrictBody(BaseModel):
    """A body in which unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class RequestBudget(StrictBody):
    """What this episode may spend; each number is at most what the server allows."""

    rounds: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(default=None, description="most searches")
    top_k: _Count | None = Field(default=None, description="passages per search")
    actions: _Count | None = Field(default=None, description="most actions, including the last one")
    tokens: _Count | None = Field(default=None, description="most tokens before the final answer")


class LimitedBody(StrictBody):
    """A body that may limit searches."""

    where: str | None = Field(
        default=None,
        max_length=2_000,
        description="only search such passages, by their metadata: type=pdf and year>=2024",
    )


class RequestSettings(LimitedBody):
    """Settings that every client may send with a question, within the server's limits."""

    budget: RequestBudget = RequestBudget()
    answer_style: AnswerStyle | None = Field(
        default=None, description="short (a few words), sentence or paragraph; by default the server's setting"
    )
    max_error: _OpenShare | None = Field(
        default=None,
        description="largest share of wrong answers among those given; needs a guarantee in the server's calibration",
    )


class TurnBody(StrictBody):
    """An earlier question of the conversation, with its answer."""

    question: str
    answer: str = Field(default="", description="empty where it was declined")
    id: str = Field(
        default="",
        max_length=64,
        description="the id of the answer, if this server gave it: its passages may then be read again",
    )


History = Annotated[
    tuple[TurnBody, ...],
    Field(max_length=50, description="the conversation so far, the latest turn last; the question may refer to it"),
]


def read_history(turns: Sequence[TurnBody], service: AnswerService, scope: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Return the turns that a client sends, with the passages of those of its answers that this server still has."""
    return tuple(service.recall_turn(answer_key(scope, turn.id), turn.question, turn.answer) for turn in turns)


def check_question(text: str, service: AnswerService, *, field: str | None = None) -> str:
    """Return the question if it is neither empty nor too long."""
    most = service.limits.question_chars
    if not text.strip():
        raise HttpProblem(422, "empty_question", "The question is empty.", remedy="Ask something.", field=field)
    if len(text) > most:
        words, remedy = f"The question has {len(text):,} characters.", f"Ask with at most {most:,}."
        raise HttpProblem(422, "question_too_long", words, remedy=remedy, field=field)
    return text


def limit_assembly(assembly: Assembly, where: str | None) -> Assembly:
    """Return an assembly whose searches are limited by a request's filter, beside the limits of the server."""
    if not where:
        return assembly
    try:
        if PATH in names_in(parse_filter(where)):
            raise _refusal("where", "The folders of this server are not shown.", remedy="Compare file, not path.")
        return assembly.limit(where)
    except BeliefRAGError as error:
        raise _refusal("where", error.message, remedy=error.remedy) from None


def assembly_for_request(service: AnswerService, wanted: RequestSettings | None, scope: Mapping[str, Any]) -> Assembly:
    """Return what the client may search, under the settings that its request asks for, if the server can meet them."""
    assembly = service.assembly_for(scope)
    if wanted is None:
        return assembly
    settings, max_error = service.settings, wanted.max_error
    budget = wanted.budget.model_dump(exclude_none=True)
    for name, value in budget.items():
        if value > (most := getattr(service.limits.budget, name)):
            words = f"A budget of {value} {name} is more than this server allows."
            raise _refusal(f"budget.{name}", words, remedy=f"Ask for at most {most}.", code="above_cap")
    given: dict[str, Any] = {"budget": replace(settings.budget, **budget)}
    if wanted.answer_style is not None:
        given["answer_style"] = wanted.answer_style
    if max_error is not None:
        if settings.max_error is not None and max_error > settings.max_error:
            # The operator's guarantee holds for all clients.
            words = f"This server guarantees max_error {settings.max_error:g}, and a request cannot weaken it."
            raise _refusal("max_error", words, code="weaker_guarantee")
        given["max_error"] = max_error
    try:
        return limit_assembly(change_policy(assembly, settings.model_copy(update=given)), wanted.where)
    except ValueError as error:
        raise _refusal("", f"{error}.") from None
    except BeliefRAGError as error:
        raise _refusal("", error.message, remedy="Leave the setting out.") from None


def _refusal(field: str, words: str, *, remedy: str = "", code: str = "settings") -> HttpProblem:
    return HttpProblem(422, code, words, remedy=remedy, field=f"settings.{field}".rstrip("."))
