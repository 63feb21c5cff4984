"""What one request may set for itself: never more than the server allows, and never a weaker guarantee."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.engine.assembly import Assembly, change_policy
from beliefrag.errors import BeliefRAGError
from beliefrag.web.problems import HttpProblem
from beliefrag.web.service import AnswerService

__all__ = ["RequestBudget", "RequestSettings", "RequestThresholds", "assembly_for_request", "check_question"]

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_OpenShare = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class RequestBudget(BaseModel):
    """What this episode may spend; each number is at most what the server allows."""

    model_config = ConfigDict(extra="forbid")

    rounds: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(default=None, description="most searches")
    top_k: _Count | None = Field(default=None, description="passages per search")
    actions: _Count | None = Field(default=None, description="most actions, including the last one")
    tokens: _Count | None = Field(default=None, description="most tokens before the final answer")


class RequestThresholds(BaseModel):
    """When this episode answers and when it declines."""

    model_config = ConfigDict(extra="forbid")

    answer: _Share | None = Field(default=None, description="answer from this answerability on")
    decline_below: _Share | None = Field(default=None, description="decline instead of answering below it")
    abstain: bool | None = Field(default=None, description="false always gives the best answer there is")


class RequestSettings(BaseModel):
    """Settings for one request, within the server's limits."""

    model_config = ConfigDict(extra="forbid")

    budget: RequestBudget = RequestBudget()
    thresholds: RequestThresholds = RequestThresholds()
    max_error: _OpenShare | None = Field(
        default=None,
        description="largest share of wrong answers among those given; needs a guarantee in the server's calibration",
    )
    confidence: _OpenShare | None = Field(
        default=None, description="the probability with which the limit of max_error must hold"
    )


def check_question(text: str, service: AnswerService, *, field: str | None = None) -> str:
    """Return the question back if it can be asked.

    Raises:
        HttpProblem: It is empty or too long.
    """
    most = service.limits.question_chars
    if not text.strip():
        raise HttpProblem(422, "empty_question", "The question is empty.", remedy="Ask something.", field=field)
    if len(text) > most:
        raise HttpProblem(
            422,
            "question_too_long",
            f"The question has {len(text):,} characters.",
            remedy=f"Ask with at most {most:,}.",
            field=field,
        )
    return text


def assembly_for_request(service: AnswerService, wanted: RequestSettings | None) -> Assembly:
    """Return the server's assembly under the settings that a request asks for.

    Raises:
        HttpProblem: A setting is above the server's limit, weakens its guarantee, or cannot be met here.
    """
    if wanted is None:
        return service.assembly
    settings = service.settings
    _check_limits(service, wanted)
    _check_guarantee(service, wanted)
    try:
        changes: dict[str, Any] = {
            "budget": replace(settings.budget, **_given_values(wanted.budget)),
            "thresholds": replace(settings.thresholds, **_given_values(wanted.thresholds)),
        }
        changes |= {name: value for name in ("max_error", "confidence") if (value := getattr(wanted, name)) is not None}
        return change_policy(service.assembly, settings.model_copy(update=changes))
    except ValueError as error:
        raise HttpProblem(422, "settings", f"{error}.", field="settings") from None
    except BeliefRAGError as error:
        raise HttpProblem(422, "settings", error.message, remedy="Leave the setting out.", field="settings") from None


def _given_values(group: BaseModel) -> dict[str, Any]:
    return group.model_dump(exclude_none=True)


def _check_limits(service: AnswerService, wanted: RequestSettings) -> None:
    for name, value in _given_values(wanted.budget).items():
        most = getattr(service.limits.budget, name)
        if value > most:
            raise HttpProblem(
                422,
                "above_cap",
                f"A budget of {value} {name} is more than this server allows.",
                remedy=f"Ask for at most {most}.",
                field=f"settings.budget.{name}",
            )


def _check_guarantee(service: AnswerService, wanted: RequestSettings) -> None:
    """Refuse a weaker guarantee than the operator's, which holds for all clients."""
    settings = service.settings
    if wanted.confidence is not None and wanted.max_error is None and settings.max_error is None:
        raise HttpProblem(
            422,
            "settings",
            "confidence needs max_error: it is the probability with which that limit must hold.",
            field="settings.confidence",
        )
    if settings.max_error is None:
        return
    if wanted.max_error is not None and wanted.max_error > settings.max_error:
        name, value = "max_error", settings.max_error
    elif wanted.confidence is not None and wanted.confidence < settings.confidence:
        name, value = "confidence", settings.confidence
    else:
        return
    raise HttpProblem(
        422,
        "weaker_promise",
        f"This server guarantees {name} {value:g}, and a request cannot weaken it.",
        field=f"settings.{name}",
    )
