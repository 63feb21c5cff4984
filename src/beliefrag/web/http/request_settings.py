"""What a request may set for itself, and how far: never more than the server allows, never a weaker promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.engine.assembly import Assembly, change_policy
from beliefrag.errors import BeliefRAGError
from beliefrag.web.http.problems import Problem
from beliefrag.web.http.service import Service

__all__ = ["Wishes", "assembly_for"]

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Inside = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, le=1_000_000_000)]


class BudgetWishes(BaseModel):
    """What this episode may spend; each at most what the server allows."""

    model_config = ConfigDict(extra="forbid")

    rounds: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(default=None, description="most searches")
    top_k: _Count | None = Field(default=None, description="passages per search")
    actions: _Count | None = Field(default=None, description="most actions, the last one included")
    tokens: _Count | None = Field(default=None, description="tokens after which no search begins")


class ThresholdWishes(BaseModel):
    """When this episode answers and when it declines."""

    model_config = ConfigDict(extra="forbid")

    answer: _Share | None = Field(default=None, description="answer from this answerability on")
    least_answerability: _Share | None = Field(default=None, description="decline rather than answer below it")
    abstain: bool | None = Field(default=None, description="false always gives the best answer there is")


class Wishes(BaseModel):
    """Settings for one request, within the server's caps."""

    model_config = ConfigDict(extra="forbid")

    budget: BudgetWishes = BudgetWishes()
    thresholds: ThresholdWishes = ThresholdWishes()
    max_error: _Inside | None = Field(
        default=None,
        description="largest share of wrong answers among those given; needs a guarantee in the server's calibration",
    )
    confidence: _Inside | None = Field(default=None, description="how surely max_error is kept to")


def assembly_for(service: Service, wishes: Wishes | None) -> Assembly:
    """The server's assembly under the policy that a request asks for.

    Raises:
        Problem: A wish is above a cap, weakens the server's own guarantee, or cannot be met here.
    """
    if wishes is None:
        return service.assembly
    settings = service.settings
    _check_caps(service, wishes)
    _check_promise(service, wishes)
    given = _given(wishes.thresholds)
    try:
        changed: dict[str, Any] = {
            "budget": replace(settings.budget, **_given(wishes.budget)),
            "thresholds": replace(settings.thresholds, **given),
        }
        changed |= {name: value for name in ("max_error", "confidence") if (value := getattr(wishes, name)) is not None}
        return change_policy(service.assembly, settings.model_copy(update=changed))
    except ValueError as error:
        raise Problem(422, "settings", f"{error}.", field="settings") from None
    except BeliefRAGError as error:
        raise Problem(422, "settings", error.message, remedy="Leave the setting out.", field="settings") from None


def _given(group: BaseModel) -> dict[str, Any]:
    return group.model_dump(exclude_none=True)


def _check_caps(service: Service, wishes: Wishes) -> None:
    for name, value in _given(wishes.budget).items():
        most = getattr(service.limits.budget, name)
        if value > most:
            raise Problem(
                422,
                "above_cap",
                f"A budget of {value} {name} is more than this server allows.",
                remedy=f"Ask for at most {most}.",
                field=f"settings.budget.{name}",
            )


def _check_promise(service: Service, wishes: Wishes) -> None:
    """An operator who promised something to everybody has promised it to whoever would rather not have it."""
    settings = service.settings
    if wishes.confidence is not None and wishes.max_error is None and settings.max_error is None:
        raise Problem(
            422,
            "settings",
            "confidence says how surely max_error is kept to, which is missing.",
            field="settings.confidence",
        )
    if settings.max_error is None:
        return
    if wishes.max_error is not None and wishes.max_error > settings.max_error:
        weaker, own = "max_error", settings.max_error
    elif wishes.confidence is not None and wishes.confidence < settings.confidence:
        weaker, own = "confidence", settings.confidence
    else:
        return
    raise Problem(
        422,
        "weaker_promise",
        f"This server keeps to {weaker} {own:g}, and a request cannot weaken it.",
        field=f"settings.{weaker}",
    )
