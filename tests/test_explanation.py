"""An episode in words: no name of the paper, and each line says what it promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beliefrag.answering.citing import find_uncovered
from beliefrag.events import Decided, Event, Retrieved
from beliefrag.explanation import describe_belief, describe_reason, explain_episode
from beliefrag.outcome import Abstained, Answered, Failed, Stopped
from beliefrag.types import Action, Belief, Citation, CitationRole, Decision, Passage, Usage
from tests.support.messages import mentions

ENDING: dict[str, Any] = {"belief": None, "sources": (), "usage": Usage()}
CITED = Citation("p", "It is 28 m high.", (0, 16), CitationRole.ANSWER)


def searched(step: int, reason: str) -> list[Event]:
    decided = Decided(
        step=step,
        at=0.0,
        decision=Decision(Action.RETRIEVE, "b", reason),
        observation=None,
        diagnostics=None,
        belief=None,
        answerability=None,
        retrieval_value=None,
        evidence=(),
        tokens=0,
    )
    found = Retrieved(
        step=step, at=0.0, query="q", hits=(), added=(), known=(), refused=(), novelty=1.0, mutations=(), evidence=()
    )
    return [decided, found]


def test_why_it_searched_names_the_reason_of_every_further_search() -> None:
    ended = Answered(reason="r", answerability=None, answer="x", **ENDING)
    assert explain_episode(ended, []).searched == "not at all"
    assert mentions(explain_episode(ended, searched(0, "first")).searched, "once", "question itself")
    told = explain_episode(ended, searched(0, "first") + searched(1, "something is missing")).searched
    assert told.startswith("twice: ") and told.endswith(": something is missing")


def test_why_it_stopped_has_the_percentage_and_no_comparison() -> None:
    reason = "it can be answered (answerability 0.84 is at least 0.50; conflict 0.04 is below 0.50)"
    ended = Answered(reason=reason, answerability=0.84, answer="x", **ENDING)
    assert explain_episode(ended, []).stopped == "it can be answered; 84% likely right"
    declined = Abstained(
        reason="not sure enough to answer (answerability 0.20 is not at least 0.35); no search is left",
        answerability=0.2,
        **ENDING,
    )
    told = "not sure enough to answer; no search is left"
    assert explain_episode(declined, []).stopped == told, "nothing is given that could be likely right"
    guessed = replace(declined, best_guess="28 m")
    assert explain_episode(guessed, []).stopped == f"{told}; the guess is 20% likely right"


def test_what_would_change_its_mind_depends_on_how_it_ended() -> None:
    answered = Answered(reason="r", answerability=0.9, answer="28 m", citations=(CITED,), **ENDING)
    assert mentions(explain_episode(answered, []).would_change, "document", "otherwise", "quoted")
    declined = Abstained(reason="no search is left within the budget", answerability=0.1, best_guess="Linz", **ENDING)
    told = explain_episode(declined, [], ["Linz"], name_options=True).would_change
    assert "\u201cLinz\u201d" in told and "budget.rounds" in told and "--best-guess" in told
    stopped = Stopped(reason="another search is not worth it", answerability=0.4, answer="x", **ENDING)
    assert "--" not in explain_episode(stopped, [], name_options=True).would_change
    failed = Failed(reason="e", answerability=None, cause="c", error="e", remedy="Start the server.", **ENDING)
    assert explain_episode(failed, []).would_change == "Start the server."


def test_who_has_no_command_line_is_told_no_options() -> None:
    declined = Abstained(reason="no search is left within the budget", answerability=0.1, best_guess="Linz", **ENDING)
    told = explain_episode(declined, [], ["Linz"]).would_change
    assert mentions(told, "\u201cLinz\u201d", "more searches", "budget") and "--" not in told


def test_the_reason_of_a_step_has_percentages_for_probabilities() -> None:
    told = describe_reason("read it again: about 480 tokens, and it helps with probability 0.31")
    assert told.endswith("about 480 tokens, and it helps with probability 31%")


@pytest.mark.parametrize(
    ("belief", "expected"),
    [
        (Belief(0.9, 0.9, 0.0, 0.1, 0.1, 0.0), ("most", "70% likely right")),
        (
            Belief(0.1, 0.2, 0.6, 0.9, 0.9, 0.0),
            ("little", "contradicts", "not trustworthy", "missing", "unsure", "70% likely right"),
        ),
        (None, ("70% likely right",)),
    ],
)
def test_the_belief_is_told_in_words(belief: Belief | None, expected: tuple[str, ...]) -> None:
    told = describe_belief(belief, 0.7).split(", ")
    assert len(told) == len(expected) and all(map(mentions, told, expected)), told


def test_words_that_nothing_read_mentions_are_found_as_they_are_written() -> None:
    passages = [Passage("p", "Graz", "The clock tower is high.")]
    assert find_uncovered("How high is the tower of Linz in DIN-A4?", passages) == ("Linz", "DIN-A4")
    assert find_uncovered("How high is the tower?", passages) == ()
