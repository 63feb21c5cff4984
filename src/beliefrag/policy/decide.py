"""What is legal under the budgets, and the branch policy: which action, and why.

The legal actions are computed here, never taken from a model's reply.

The rules are tried in order and the first that applies decides. Every decision carries the numbers it compared, so
that a person can read why.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from beliefrag.types import TERMINAL, Action, Belief, Budget, Comparison, Decision

_CORRECTION_CHAIN = 3
"""VERIFY, REWRITE, RETRIEVE."""
UNSURE = "abstain-unsure"
"""The branch that holds an answer back because of `Thresholds.decline_below`."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What an episode has used so far."""

    rounds: int = 0
    actions: int = 0
    tokens: int = 0
    """The tokens used. They are at least the budget once a model call was not begun because it did not fit into it."""


def correction_fits(budget: Budget, spent: Spent) -> bool:
    """Return whether a whole correction and a terminal action can still be afforded."""
    return _can_search(budget, spent) and budget.actions - spent.actions >= _CORRECTION_CHAIN + 1


def legal_actions(
    budget: Budget,
    spent: Spent,
    *,
    has_evidence: bool,
    has_query: bool,
    nothing_missing: bool = False,
    has_rewritten: bool = False,
) -> tuple[Action, ...]:
    """Return the actions that the harness will carry out now, in the order of `Action`.

    Args:
        budget: The limits.
        spent: What is used.
        has_evidence: Whether any passage is retained; without one there is nothing to verify.
        has_query: Whether a query was issued; without one there is nothing to rewrite.
        nothing_missing: The query writer said SUFFICIENT: only terminal actions remain.
        has_rewritten: Whether a rewritten query waits to be searched for. It is paid for, and a search costs no tokens,
            so that it may be made even where the rewriter spent the last of them.
    """
    legal = set(TERMINAL)
    left = budget.actions - spent.actions
    if left > 1 and not nothing_missing:
        if has_evidence:
            legal.add(Action.VERIFY)
        if _can_search(budget, spent):
            legal.add(Action.RETRIEVE)
            # A rewritten query that can no longer be searched for would cost tokens for nothing.
            if has_query and left > 2:
                legal.add(Action.REWRITE)
        elif has_rewritten and spent.rounds < budget.rounds:
            legal.add(Action.RETRIEVE)
    return tuple(action for action in Action if action in legal)


def _can_search(budget: Budget, spent: Spent) -> bool:
    return spent.rounds < budget.rounds and spent.tokens < budget.tokens


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Where the branches switch. The abstention thresholds and all switches are ours; the rest is the paper's."""

    answer: float = 0.50
    """Answer from this answerability on."""
    conflict: float = 0.50
    """From this belief in conflict on, correct the evidence and do not answer."""
    reliability: float = 0.30
    """Below this belief in reliability, correct the evidence."""
    retrieval_value: float = 0.10
    """Search again from this retrieval value on."""
    novelty: float = 0.20
    """Below this novelty, rewrite the query before the next search."""
    abstain: bool = True
    """False never abstains: STOP gives the best answer instead."""
    abstain_sufficiency: float = 0.15
    """Abstain only below this belief in sufficiency,"""
    abstain_uncertainty: float = 0.85
    """and above this belief in uncertainty,"""
    abstain_answerability: float = 0.35
    """and below this answerability. All three must hold; the paper does not give these values."""
    correct_conflict: bool = True
    """Whether conflict can start a correction."""
    correct_unreliable: bool = True
    """Whether low reliability can start a correction."""
    correct_flagged: bool = True
    """Whether flagged passages can start a correction."""
    correction_prunes: bool = True
    """False leaves VERIFY out of a correction: the query is rewritten and searched, and nothing is dropped for it."""
    correction_replaces: bool = True
    """False ends a correction with VERIFY: weak passages are dropped, and no search is made for better ones."""
    merge_rewriter: bool = True
    """Whether one call writes the new query of a rewrite, and knows the evidence and the reason. False pays for two, as
    the paper does: a rewriter that knows the reason, then the query writer that knows the evidence."""
    decline_below: float | None = None
    """Below this answerability an answer is declined; None gives every answer. It changes no search."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not (value is None or isinstance(value, bool) or 0.0 <= value <= 1.0):
                raise ValueError(f"threshold {f.name} must lie between 0 and 1, not {value}")
        if self.decline_below and not self.abstain:
            raise ValueError("threshold decline_below holds answers back, and abstain is off")
        if not (self.correction_prunes or self.correction_replaces):
            raise ValueError(
                "a correction that neither prunes nor replaces does nothing; switch off what starts one instead "
                "(correct_conflict, correct_unreliable, correct_flagged)"
            )


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision may look at."""

    belief: Belief
    answerability: float
    retrieval_value: float
    novelty: float
    rounds: int
    flagged: int
    """How many retained passages the latest observation would drop."""
    actions: tuple[Action, ...]
    """What was done so far."""
    legal: tuple[Action, ...]
    correction_fits: bool
    nothing_missing: bool = False
    """The query writer found nothing left to search for."""
    retained: int = 1
    """How many passages there are to answer from."""


def decide(situation: Situation, thresholds: Thresholds) -> Decision:
    """Choose one legal action."""
    for branch in (_finish_correction, _start_correction, _answer, _search_again):
        decision = branch(situation, thresholds)
        if decision is not None:
            break
    else:
        decision = _abstain(situation, thresholds) or _stop(situation, thresholds)
    return _set_rewriter(_abstain_if_unsure(decision, situation, thresholds), thresholds)


def _finish_correction(s: Situation, t: Thresholds) -> Decision | None:
    last = s.actions[-1] if s.actions else None
    if last is Action.VERIFY and Action.REWRITE in s.legal and t.correction_replaces:
        return _make_decision(s, Action.REWRITE, "finish-correction")
    if last is Action.REWRITE and Action.RETRIEVE in s.legal:
        return _make_decision(s, Action.RETRIEVE, "finish-rewrite")
    return None


def _start_correction(s: Situation, t: Thresholds) -> Decision | None:
    first = Action.VERIFY if t.correction_prunes else Action.REWRITE
    # The ablated corrections start where the whole one would so that they differ from it in nothing but what they do.
    if not (s.correction_fits and Action.VERIFY in s.legal and first in s.legal):
        return None
    if not t.correction_replaces and s.actions[-1:] == (Action.VERIFY,):
        # Without a search nothing has changed since the passages were dropped: a second VERIFY would find nothing.
        return None
    conflict = _at_least("conflict", s.belief.conflict, t.conflict)
    unreliable = _below("reliability", s.belief.reliability, t.reliability)
    flagged = _at_least("flagged passages", float(s.flagged), 1.0)
    if t.correct_conflict and conflict.holds:
        return _make_decision(s, first, "correct-conflict", conflict)
    if t.correct_unreliable and unreliable.holds:
        return _make_decision(s, first, "correct-unreliable", unreliable)
    if t.correct_flagged and flagged.holds:
        return _make_decision(s, first, "correct-flagged", flagged)
    return None


def _answer(s: Situation, t: Thresholds) -> Decision | None:
    answerable, certain = _compare_for_answer(s, t)
    if answerable.holds and certain.holds:
        return _make_decision(s, Action.ANSWER, "answer", answerable, certain)
    return None


def _compare_for_answer(s: Situation, t: Thresholds) -> tuple[Comparison, Comparison]:
    return (
        _at_least("answerability", s.answerability, t.answer),
        _below("conflict", s.belief.conflict, t.conflict),
    )


def _search_again(s: Situation, t: Thresholds) -> Decision | None:
    unanswerable = _below("answerability", s.answerability, t.answer)
    worth = _at_least("retrieval value", s.retrieval_value, t.retrieval_value)
    if not (unanswerable.holds and worth.holds and Action.RETRIEVE in s.legal):
        return None
    stale = _below("novelty", s.novelty, t.novelty)
    if stale.holds and s.rounds >= 1 and Action.REWRITE in s.legal:
        return _make_decision(s, Action.REWRITE, "rewrite", unanswerable, worth, stale)
    return _make_decision(s, Action.RETRIEVE, "retrieve", unanswerable, worth)


def _abstain(s: Situation, t: Thresholds) -> Decision | None:
    inadequate = (
        _below("sufficiency", s.belief.sufficiency, t.abstain_sufficiency),
        _above("uncertainty", s.belief.uncertainty, t.abstain_uncertainty),
        _below("answerability", s.answerability, t.abstain_answerability),
    )
    if t.abstain and all(comparison.holds for comparison in inadequate):
        return _make_decision(s, Action.ABSTAIN, "abstain", *inadequate)
    if t.abstain and not s.retained:
        # With nothing retained the belief stays where it was, so its thresholds cannot speak; the case is plain.
        unanswerable = _below("answerability", s.answerability, t.answer)
        return _make_decision(s, Action.ABSTAIN, "abstain-nothing-found", unanswerable)
    return None


def _stop(s: Situation, t: Thresholds) -> Decision:
    answerable, certain = _compare_for_answer(s, t)
    worth = _at_least("retrieval value", s.retrieval_value, t.retrieval_value)
    if s.nothing_missing:
        reason = "stop:nothing-missing"
    elif Action.RETRIEVE not in s.legal:
        reason = "stop:budget"
    elif answerable.holds:
        reason = "stop:conflict"
    else:
        reason = "stop:not-worth"
    return _make_decision(s, Action.STOP, reason, answerable, certain, worth)


def _abstain_if_unsure(decision: Decision, s: Situation, t: Thresholds) -> Decision:
    if t.decline_below is None or decision.action not in {Action.ANSWER, Action.STOP}:
        return decision
    unsure = _below("answerability", s.answerability, t.decline_below)
    return _make_decision(s, Action.ABSTAIN, UNSURE, unsure) if unsure.holds else decision


def _make_decision(s: Situation, action: Action, reason: str, *compared: Comparison) -> Decision:
    return Decision(action, reason, compared, s.legal)


def _set_rewriter(decision: Decision, t: Thresholds) -> Decision:
    return (
        replace(decision, reads_evidence=True) if decision.action is Action.REWRITE and t.merge_rewriter else decision
    )


def _at_least(name: str, value: float, threshold: float) -> Comparison:
    return Comparison(name, value, "at least", threshold, value >= threshold)


def _below(name: str, value: float, threshold: float) -> Comparison:
    return Comparison(name, value, "below", threshold, value < threshold)


def _above(name: str, value: float, threshold: float) -> Comparison:
    return Comparison(name, value, "above", threshold, value > threshold)
