"""What one request may set for itself: never more than the server allows, and never a weaker guarantee."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.engine.assembly import Assembly, change_policy
from beliefrag.errors import BeliefRAGError
from beliefrag.web.problems import HttpProblem
from beliefrag.web.service import AnswerService

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
OpenShare = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
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
    max_error: OpenShare | None = Field(
        default=None,
        description="largest share of wrong answers among those given; needs a guarantee in the server's calibration",
    )
    confidence: OpenShare | None = Field(default=None, description="the probability with which max_error must hold")


def check_question(text: str, service: AnswerService, *, field: str | None = None) -> str:
    """Return the question if it can be asked."""
    most = service.limits.question_chars
    if not text.strip():
        raise HttpProblem(422, "empty_question", "The question is empty.", remedy="Ask something.", field=field)
    if len(text) > most:
        words, remedy = f"The question has {len(text):,} characters.", f"Ask with at most {most:,}."
        raise HttpProblem(422, "question_too_long", words, remedy=remedy, field=field)
    return text


def assembly_for_request(service: AnswerService, wanted: RequestSettings | None) -> Assembly:
    """Return the server's assembly under the settings that a request asks for."""
    if wanted is None:
        return service.assembly
    settings = service.settings
    given: dict[str, Any] = wanted.model_dump(exclude_none=True)
    budget = given.pop("budget")
    for name, value in budget.items():
        if value > (most := getattr(service.limits.budget, name)):
            words = f"A budget of {value} {name} is more than this server allows."
            raise _refusal(f"budget.{name}", words, remedy=f"Ask for at most {most}.", code="above_cap")
    _check_guarantee(service, wanted)
    try:
        given |= {
            "budget": replace(settings.budget, **budget),
            "thresholds": replace(settings.thresholds, **given["thresholds"]),
        }
        return change_policy(service.assembly, settings.model_copy(update=given))
    except ValueError as error:
        raise _refusal("", f"{error}.") from None
    except BeliefRAGError as error:
        raise _refusal("", error.message, remedy="Leave the setting out.") from None


def _check_guarantee(service: AnswerService, wanted: RequestSettings) -> None:
    """Refuse a weaker guarantee than the operator's, which holds for all clients."""
    settings = service.settings
    if settings.max_error is None:
        if wanted.confidence is not None and wanted.max_error is None:
            words = "confidence needs max_error: it is the probability with which that limit must hold."
            raise _refusal("confidence", words)
        return
    weaker = {
        "max_error": wanted.max_error is not None and wanted.max_error > settings.max_error,
        "confidence": wanted.confidence is not None and wanted.confidence < settings.confidence,
    }
    for name in (name for name, is_weaker in weaker.items() if is_weaker):
        words = f"This server guarantees {name} {getattr(settings, name):g}, and a request cannot weaken it."
        raise _refusal(name, words, code="weaker_guarantee")


def _refusal(field: str, words: str, *, remedy: str = "", code: str = "settings") -> HttpProblem:
    return HttpProblem(422, code, words, remedy=remedy, field=f"settings.{field}".rstrip("."))
