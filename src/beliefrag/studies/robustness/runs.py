"""The runs of the study: each level of noise, counterfactual evidence, and the ordinary evidence beside them."""

from __future__ import annotations

from beliefrag.bench.perturbation import Injection
from beliefrag.studies.kinds import WITH_FALSEHOODS, WITH_NOISE
from beliefrag.studies.required_runs import RequiredRun

__all__ = ["COMPARED", "COUNTERFACTUAL", "COUNTERFACTUAL_RUN", "LEVELS", "METHOD", "ORDINARY_RUN", "noise_run", "runs"]

METHOD = "beliefrag"
COMPARED = ("static", "iterative", "crag", METHOD)
"""Those that the paper's text gives numbers for."""
LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8)
"""Shares of irrelevant passages."""
COUNTERFACTUAL = 0.4
"""Share of false passages: two of five hits lie. The paper gives none."""
COUNTERFACTUAL_RUN = f"counterfactual_{100 * COUNTERFACTUAL:02.0f}"
ORDINARY_RUN = "comparison"
"""The run that others compare methods in: ordinary questions and evidence."""


def noise_run(level: float) -> str:
    """The name of the run with that share of irrelevant passages."""
    return f"noise_{100 * level:02.0f}"


def runs(methods: tuple[str, ...]) -> tuple[RequiredRun, ...]:
    """All runs, with these methods where they are compared."""
    noisy = (
        RequiredRun(noise_run(level), methods, kind=WITH_NOISE, injection=Injection(noise=level), splits=("noise",))
        for level in LEVELS
    )
    false = RequiredRun(
        COUNTERFACTUAL_RUN,
        methods,
        kind=WITH_FALSEHOODS,
        injection=Injection(counterfactual=COUNTERFACTUAL),
        splits=("fact",),
    )
    return (*noisy, false, RequiredRun(ORDINARY_RUN, (METHOD,)))
