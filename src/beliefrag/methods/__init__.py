"""The methods: one file each, all on the protocol in `beliefrag.engine.controller`.

Apart from BeliefRAG they are variants for the common harness; docs/methods.md describes how each differs from the
system that it is named after. A new method is one file with a frozen dataclass, registered with `METHODS.register`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from beliefrag.engine.controller import Method
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.policy import Calibration, ScoreScale, Thresholds
from beliefrag.registry import ExtensionChoice, Registry, TypicalCost
from beliefrag.settings import PROFILES, Profile, Settings
from beliefrag.verifiers import VERIFIERS

__all__ = [
    "METHODS",
    "STATE_COLLECTORS",
    "CostWithVerifier",
    "MethodInputs",
    "SearchPlan",
    "TypicalCost",
    "build_method",
    "find_profile",
    "needs_calibration",
    "plan_search",
    "typical_cost",
]


@dataclass(frozen=True, slots=True)
class MethodInputs:
    """What the program gives to a method that it builds."""

    calibration: Calibration | None = None
    """What was fitted for the model. Every method that is registered as needing a calibration gets one."""
    thresholds: Thresholds = Thresholds()
    """Where the branches of BeliefRAG switch."""


METHODS: Registry[Method, MethodInputs] = Registry(
    "method",
    "beliefrag.methods",
    {
        name: f"beliefrag.methods.{name}"
        for name in (
            *("no_rag", "static", "iterative", "adaptive_k", "adaptive_rag", "self_rag", "crag", "rl_search"),
            *("ircot", "flare", "uncertainty_gate", "beliefrag"),
        )
    }
    | {"lean": "beliefrag.methods.beliefrag"},
)
"""Every method, in the order of the tables."""

STATE_COLLECTORS = ("survey", "lean_survey", "lean_reads")
"""The state collectors, by the names that recorded runs have for them. They are not compared with other methods."""

_COLLECTOR_COSTS = {"survey": 1.5, "lean_survey": 3.5, "lean_reads": 1.0}
"""How much more a state collector costs than its method. The factors are guesses, but for lean_reads."""


@dataclass(frozen=True, slots=True)
class CostWithVerifier(TypicalCost):
    """The typical cost of a method that asks the verifier: the figures are those of its other calls."""

    looks: float = 1.0
    """How often the verifier looks at the evidence in an episode."""
    measured: Mapping[str, TypicalCost] = field(default_factory=dict)
    """The cost of a whole episode, by verifier form, where it was measured."""


def build_method(
    chosen: str | ExtensionChoice[Method, MethodInputs],
    inputs: MethodInputs | None = None,
    *,
    score_scale: ScoreScale | None = None,
) -> Method:
    """Make a method ready to run, from a choice, text such as `NAME:key=value,...` or the name of a state collector.

    A state collector has no calibration that would give the score scale.
    """
    inputs = inputs or MethodInputs()
    if isinstance(chosen, str):
        if chosen in STATE_COLLECTORS:
            from beliefrag.methods.state_collector import collect_states  # noqa: PLC0415 - it builds on a method

            # A state collector asks what every answer would be: one that is held back would be lost.
            inputs = replace(inputs, thresholds=replace(inputs.thresholds, decline_below=None))
            return collect_states(chosen, score_scale, inputs)
        chosen = METHODS.choose(chosen)
    if chosen.extension.needs_calibration and inputs.calibration is None:
        raise CalibrationError(
            f"The method {chosen.name!r} needs a calibration for its model.",
            remedy="Name one with --set calibration=FILE, or borrow another model's with --borrow.",
        )
    method = chosen.build(inputs)
    if method.name != chosen.name:
        raise SettingsError(
            f"The method registered as {chosen.name!r} calls itself {method.name!r}.",
            remedy="Give it the same name in both places: runs and tables know a method by it.",
        )
    return method


def needs_calibration(name: str) -> bool:
    """Return whether a method needs a fit for the model; False for a method that is not installed."""
    return name in METHODS and METHODS[name].needs_calibration


def find_profile(name: str) -> Profile | None:
    """Return the profile of a method or state collector; None for a method that has none."""
    if name in STATE_COLLECTORS:
        return PROFILES["default" if name.startswith("lean") else "paper"]
    return PROFILES.get(METHODS[name].profile) if name in METHODS else None


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """How a method searches and what its prompts show: what the settings say, or else what its profile has."""

    retriever: str
    pack: int | None
    """The most words of evidence in a prompt; None shows whole passages."""


def plan_search(settings: Settings, text: str) -> SearchPlan:
    """Return how the method searches that `NAME` or `NAME:key=value,...` names."""
    profile = find_profile(text.partition(":")[0]) or PROFILES["paper"]
    usual = profile.pack if settings.is_embedded else profile.served_pack
    pack = usual if settings.pack is None else settings.pack
    return SearchPlan(settings.retriever or profile.retriever, pack or None)


def typical_cost(name: str, verifier: str) -> TypicalCost | None:
    """Return what a mean episode costs with a verifier form, before a run has measured it; None if it is unknown.

    The figures are for top-k 5 and passages of about a hundred words, and can be off by a factor of two.
    """
    if name in STATE_COLLECTORS:
        whole = typical_cost("lean" if name.startswith("lean") else "beliefrag", verifier)
        return whole.times(_COLLECTOR_COSTS[name]) if whole else None
    cost = METHODS[name].cost
    if not isinstance(cost, CostWithVerifier):
        return cost
    look = VERIFIERS[verifier].cost
    if verifier in cost.measured or look is None:
        return cost.measured.get(verifier)
    return look.times(cost.looks) + TypicalCost(cost.calls, cost.tokens_in, cost.tokens_out)
