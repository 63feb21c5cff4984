"""An episode in plain words: its reasons, what is believed, why it searched and stopped, what would change its mind.

This is the one place that turns codes into words, for every surface and for the prompt of the rewriter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from beliefrag.policy import PRIOR
from beliefrag.record import UNCALIBRATED, Episode, Outcome, Step
from beliefrag.types import Action, Belief, CitationRole, Comparison

ACTION_WORDS = {
    Action.RETRIEVE: "search",
    Action.REWRITE: "rephrase",
    Action.VERIFY: "check",
    Action.ANSWER: "answer",
    Action.STOP: "stop",
    Action.ABSTAIN: "decline",
}
"""What each action is called in front of people."""
BELIEF_WORDS = {
    "sufficiency": "enough found",
    "reliability": "trustworthy",
    "conflict": "contradicts",
    "uncertainty": "unsure",
    "gap": "missing",
    "cost": "spent",
    "answerability": "likely right",
}
"""What each number is called in front of people."""

UNCLEAR = "abstain-unclear"
"""The reason of an episode that ended before any search; what makes the question unclear follows after a colon."""
_BEST_ANSWER = "; give the best answer from what there is"
_REASONS = {
    "abstain": "the evidence is inadequate and no search is worth making",
    "abstain-nothing-found": "no passage was found to answer from, and no search is worth making",
    "abstain-unsupported": "the evidence supports no sentence of the answer that was written",
    "abstain-own-count": "no passage states the number, and a count over the passages that were read would be too low",
    "abstain-unsure": "not sure enough to answer",
    "answer": "the question can be answered now",
    "answer:all-rounds": "all rounds are made",
    "answer:dialogue-incomplete": "the dialogue ended early; answer from what was found",
    "answer:graded-correct": "a passage is graded correct",
    "answer:model-answers": "the model answers",
    "answer:model-sure": "the model is sure of its own answer",
    "answer:nothing-missing": "the query writer finds nothing left to search for",
    "answer:one-search": "the one search is made",
    "answer:reasoning-concludes": "the reasoning has reached an answer",
    "answer:reasoning-incomplete": "the reasoning ended early",
    "answer:reasoning-repeats": "the reasoning repeats itself",
    "answer:shared-reader": "the model would answer; the shared prompt does so from what was found",
    "answer:text-concludes": "the text has reached an answer",
    "answer:text-incomplete": "the text ended early",
    "answer:text-longest": "the text is as long as it may be",
    "answer:text-repeats": "the text repeats itself",
    "answer:trigger-no": "the trigger asks for no search",
    "answer:without-search": "this method answers without searching",
    "correct-conflict": "the evidence contradicts itself",
    "correct-unreliable": "the evidence is not reliable enough",
    "finish-correction": "weak passages are gone; look for better ones",
    "finish-rewrite": "the query was rewritten; search with it",
    "prune:in-part": "the passages found settle the question only in part",
    "retrieve": "not answerable yet, and a search is worth it",
    "retrieve:collection": "the question is about the whole collection, of which more can be read",
    "retrieve:corrected-query": "search with the corrected query",
    "retrieve:largest-drop": "search once, and cut at the largest drop",
    "retrieve:latest-sentence": "search for the latest sentence of the reasoning",
    "retrieve:model-asks": "the model asks for a search",
    "retrieve:model-unsure": "the model is not sure of its own answer",
    "retrieve:next-round": "this method makes every search of its budget",
    "retrieve:once": "this method searches once",
    "retrieve:question": "the first search is for the question",
    "retrieve:trigger-yes": "the trigger asks for a search",
    "retrieve:unsure-sentence": "the model is not sure of its next sentence",
    "rewrite": "the last search brought little new; change the query first",
    "rewrite:dropped-poor": "poor passages are gone; look for better ones",
    "rewrite:in-part": "the passages found settle the question only in part",
    "rewrite:none-relevant": "none of the passages found bears on the question",
    "rewrite:nothing-found": "the search found nothing",
    "selected": "the model chose it among the legal actions",
    "stop:budget": f"no search is left within the budget{_BEST_ANSWER}",
    "stop:conflict": f"the evidence still contradicts itself{_BEST_ANSWER}",
    "stop:not-worth": f"another search is not worth it{_BEST_ANSWER}",
    "stop:nothing-missing": f"the query writer finds nothing left to search for{_BEST_ANSWER}",
}
DECLINED = "Declined: the documents do not answer this clearly enough."
_FOUND = ((0.4, "most"), (0.2, "part"))
"""How much is there from which sufficiency on: docs/results/diagnostics.md has the share of the needed passages."""
_MOST_WORDS = 5


@dataclass(frozen=True, slots=True)
class Explanation:
    """An episode that has ended, in words."""

    searched: str
    """Why it searched, and how often."""
    stopped: str
    """Why it stopped."""
    would_change: str
    """What would change its mind."""
    notes: tuple[str, ...] = ()
    """Sentences that belong beside the answer: what is missing, unread or removed, a guarantee."""


def describe_reason(code: str, comparisons: Sequence[Comparison] = ()) -> str:
    """Return the reason of a step in words. The code of an extension that has no words here is shown as it is."""
    if code == "correct-flagged":
        count = int(comparisons[0].value)
        return f"the verifier flagged {'one passage' if count == 1 else f'{count} passages'}"
    if code.startswith(f"{UNCLEAR}:"):
        return f"the question does not say what \u201c{code.partition(':')[2]}\u201d is about"
    return _REASONS.get(code) or code.partition(":")[2].replace("-", " ") or code.replace("-", " ")


def describe_belief(belief: Belief | None, answerability: float | None) -> str:
    """Return in words what the evidence is worth, and how likely an answer from it is right."""
    parts = []
    if belief is not None and replace(belief, cost=PRIOR.cost) == PRIOR:
        parts.append("nothing has been read yet")
    elif belief is not None:
        found = next((words for least, words in _FOUND if belief.sufficiency >= least), "little")
        parts.append(f"{found} of what is needed is there")
        if belief.conflict >= 0.5:
            parts.append("it contradicts itself")
        if belief.reliability < 0.3:
            parts.append("it is not trustworthy")
        if belief.gap >= 0.6:
            parts.append("something is missing")
        if belief.uncertainty >= 0.6:
            parts.append("the model is unsure")
    if answerability is not None:
        parts.append(f"an answer now is {answerability:.0%} likely right")
    return ", ".join(parts)


def explain_episode(
    episode: Episode, uncovered: Sequence[str] = (), *, name_options: bool = False, whole: bool = False
) -> Explanation:
    """Explain why an episode searched and stopped, and what would change its mind.

    Args:
        episode: An episode that has ended.
        uncovered: Words of the question that occur in no passage that was read.
        name_options: Whether to name the options of the command line that change the end.
        whole: Whether the question is about the whole collection so that a note names the part that was read.
    """
    would_change = _explain_change(episode, uncovered, name_options=name_options)
    searched = _explain_searches(episode.steps)
    if episode.carried:
        searched += ", with the passages of an earlier answer at hand"
    notes = tuple(_explain_notes(episode, uncovered, whole=whole))
    return Explanation(searched, _explain_end(episode), would_change, notes)


def _explain_notes(episode: Episode, uncovered: Sequence[str], *, whole: bool) -> Iterator[str]:
    if episode.outcome is Outcome.ABSTAINED and ask_back(episode) is None:
        yield _describe_missing(episode, uncovered)
    if episode.outcome is Outcome.STOPPED:
        yield "This is the best answer found, not one to rely on."
    if episode.left_out:
        yield f"Left out: {describe_left_out(episode.left_out)}."
    if whole and episode.collection is not None and len(episode.sources) < episode.collection:
        yield f"Only {len(episode.sources)} of {episode.collection:,} passages were read."
    if guarantee := episode.made_with.get("guarantee"):
        yield f"{guarantee[:1].upper()}{guarantee[1:]}."


def _describe_missing(episode: Episode, uncovered: Sequence[str]) -> str:
    if not episode.sources:
        return "Missing: no passage matches the words of the question."
    if episode.reason == "abstain-own-count":
        return "Missing: no passage states the number, and not all passages were read."
    if not uncovered:
        return "Missing: the passages read mention the subject, but none states the answer clearly."
    quoted = [f"\u201c{word}\u201d" for word in uncovered[:_MOST_WORDS]]
    named = " or ".join(filter(None, (", ".join(quoted[:-1]), quoted[-1])))
    return f"Missing: no passage read mentions {named}."


def describe_left_out(count: int) -> str:
    """Return in words that sentences of an answer were removed; empty if none was."""
    if not count:
        return ""
    return f"{'1 sentence' if count == 1 else f'{count} sentences'} that the documents do not support"


def ask_back(episode: Episode) -> str | None:
    """Return what to ask the person whose question cannot be understood by itself; None for any other end."""
    branch, _, unclear = episode.reason.partition(":")
    if branch != UNCLEAR:
        return None
    if " " in unclear or unclear.lower() in {"why", "how", "what", "who", "when", "where", "which"}:
        return "What is the question about? Name a person, a place or a thing to look for."
    return f"What does \u201c{unclear}\u201d refer to? Ask again and name it."


def _explain_searches(steps: Sequence[Step]) -> str:
    reasons = [describe_reason(each.reason, each.comparisons) for each in steps if each.search and each.search.was_made]
    if not reasons:
        return "not at all"
    times = {1: "once", 2: "twice"}.get(len(reasons), f"{len(reasons)} times")
    first = "for the question itself, because nothing had been read"
    if len(reasons) == 1:
        return f"{times}, {first}"
    return f"{times}: {first}; then because: {'; '.join(dict.fromkeys(reasons[1:]))}"


def _explain_end(episode: Episode) -> str:
    if episode.error is not None:
        return episode.error.message
    reason = describe_reason(episode.reason, episode.steps[-1].comparisons) if episode.steps else ""
    if episode.answerability is None:
        return reason
    if episode.outcome is Outcome.ABSTAINED:
        # Only a guess can be likely or not if no answer is given.
        return reason if episode.best_guess is None else f"{reason}; the guess is {describe_confidence(episode)}"
    return f"{reason}; {describe_confidence(episode)}"


def describe_confidence(episode: Episode) -> str:
    """Return how likely the answer or the guess is right, and whether that is no more than an estimate."""
    if episode.answerability is None:
        return "no probability: the method gives none"
    likely = f"{episode.answerability:.0%} likely right"
    return f"{likely}, an {UNCALIBRATED}" if episode.calibrated is False else likely


def _explain_change(episode: Episode, uncovered: Sequence[str], *, name_options: bool) -> str:
    if episode.error is not None:
        return episode.error.remedy
    if ask_back(episode) is not None:
        return "a question that can be understood by itself"
    missing = ", ".join(f"\u201c{word}\u201d" for word in uncovered[:_MOST_WORDS])
    plainly = "a document that says it in plain words"
    about = f"a document that says something about {missing}, which nothing that was read mentions" if missing else ""
    cited = episode.citations
    if episode.outcome is Outcome.ANSWERED:
        several = len(cited) > 1 or any(citation.role is CitationRole.COMPARISON for citation in cited)
        quoted = "the sentences quoted" if several else "the sentence quoted"
        return f"a document that contradicts {quoted}" if cited else about or plainly
    parts = [about or plainly]
    if episode.reason == "stop:budget":
        options = "or more searches (--set budget.rounds=N, --set budget.tokens=N)"
        parts.append(options if name_options else "or more searches than the budget allows")
    if name_options and episode.best_guess is not None:
        parts.append("or --best-guess, which gives the guess as the answer")
    return ", ".join(parts)
