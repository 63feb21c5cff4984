"""The method of the paper, pure: no I/O, no clock, no model, no async.

One file per idea, in the order in which a step uses them: evidence, belief (what is measured, believed and probable),
decide. The loop and the BeliefRAG method call these; nothing here calls back.
"""

from beliefrag.policy.belief import (
    FALLBACK_SCHEDULE,
    NEUTRAL_RELEVANCE,
    NOTHING_OBSERVED,
    PRIOR,
    Answerability,
    Calibration,
    FittedValue,
    IsotonicAnswerability,
    LogisticAnswerability,
    PlattAnswerability,
    RetrievalValue,
    ScheduledValue,
    ScoreScale,
    calibrate_scores,
    cost,
    measure,
    novelty,
    relevance,
    update,
)
from beliefrag.policy.decide import (
    UNSURE,
    Situation,
    Spent,
    Thresholds,
    correction_fits,
    decide,
    legal_actions,
)
from beliefrag.policy.evidence import Evidence, EvidenceChange

__all__ = [
    "FALLBACK_SCHEDULE",
    "NEUTRAL_RELEVANCE",
    "NOTHING_OBSERVED",
    "PRIOR",
    "UNSURE",
    "Answerability",
    "Calibration",
    "Evidence",
    "EvidenceChange",
    "FittedValue",
    "IsotonicAnswerability",
    "LogisticAnswerability",
    "PlattAnswerability",
    "RetrievalValue",
    "ScheduledValue",
    "ScoreScale",
    "Situation",
    "Spent",
    "Thresholds",
    "calibrate_scores",
    "correction_fits",
    "cost",
    "decide",
    "legal_actions",
    "measure",
    "novelty",
    "relevance",
    "update",
]
