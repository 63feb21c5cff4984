"""The methods: one file each, all on the protocol in `beliefrag.engine.controller`.

Apart from BeliefRAG they are variants for the common harness, made to compare ways to control retrieval with
everything else equal; docs/methods.md says how each differs from the system that it is named after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from beliefrag.calibration import Calibration
from beliefrag.engine.controller import Method
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.methods.adaptive_k import AdaptiveK
from beliefrag.methods.adaptive_rag import AdaptiveRag
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.methods.crag import Crag
from beliefrag.methods.flare import Flare
from beliefrag.methods.ircot import IrCot
from beliefrag.methods.iterative import Iterative
from beliefrag.methods.no_rag import NoRag
from beliefrag.methods.rl_search import RlSearch
from beliefrag.methods.self_rag import SelfRag
from beliefrag.methods.state_collector import STATE_COLLECTORS
from beliefrag.methods.static import Static
from beliefrag.methods.uncertainty_gate import UncertaintyGate
from beliefrag.policy import Thresholds

__all__ = [
    "CALIBRATED",
    "METHODS",
    "NEED_LOGPROBS",
    "STATE_COLLECTORS",
    "TITLES",
    "AdaptiveK",
    "AdaptiveRag",
    "BeliefRAGMethod",
    "Crag",
    "Flare",
    "IrCot",
    "Iterative",
    "NoRag",
    "RlSearch",
    "SelfRag",
    "Static",
    "UncertaintyGate",
    "method_named",
]

METHODS: Mapping[str, Callable[..., Method]] = {
    "no_rag": NoRag,
    "static": Static,
    "iterative": Iterative,
    "adaptive_k": AdaptiveK,
    "adaptive_rag": AdaptiveRag,
    "self_rag": SelfRag,
    "crag": Crag,
    "rl_search": RlSearch,
    "ircot": IrCot,
    "flare": Flare,
    "uncertainty_gate": UncertaintyGate,
    "beliefrag": BeliefRAGMethod,
}
"""What makes each method, in the order of the tables. Those in `CALIBRATED` take a calibration first."""

CALIBRATED = frozenset({"beliefrag"})
"""Methods that rest on a fit for the model."""

NEED_LOGPROBS = frozenset({"flare", "uncertainty_gate"})
"""Methods that fail, with a message that says so, on a model that gives no token probabilities."""

TITLES: Mapping[str, str] = {
    "no_rag": "No-RAG",
    "static": "Static",
    "iterative": "Iterative",
    "adaptive_k": "Adaptive-k",
    "adaptive_rag": "Adaptive-RAG",
    "self_rag": "Self-RAG*",
    "crag": "CRAG",
    "rl_search": "RL-Search",
    "ircot": "IRCoT",
    "flare": "FLARE",
    "uncertainty_gate": "Uncertainty gate",
    "beliefrag": "BeliefRAG",
}
"""How tables and figures write each method."""


def method_named(name: str, calibration: Calibration | None = None, thresholds: Thresholds = Thresholds()) -> Method:
    """The method of that name, with its own defaults.

    Args:
        name: One of `METHODS`.
        calibration: What was fitted for the model; only a method in `CALIBRATED` uses it.
        thresholds: Where the branches of BeliefRAG switch.

    Raises:
        SettingsError: No method is called that.
        CalibrationError: The method needs a calibration, and there is none.
    """
    if name not in METHODS:
        raise SettingsError(f"No method is called {name!r}.", remedy=f"Choose one of {', '.join(METHODS)}.")
    if name not in CALIBRATED:
        return METHODS[name]()
    if calibration is None:
        raise CalibrationError(
            f"The method {name!r} needs a calibration for its model.",
            remedy="Name one with --calibration, or borrow another model's with --borrow.",
        )
    return METHODS[name](calibration, thresholds)
