"""An episode in words: no name of the paper, and each line says what it promises."""

from __future__ import annotations

from beliefrag.answering.citing import find_uncovered
from beliefrag.explanation import explain_episode
from beliefrag.record import Episode, Failure, Outcome, Step
from beliefrag.types import Action, Citation, CitationRole, Passage, Question
from tests.support.messages import mentions

CITED = Citation("p", "It is 28 m high.", (0, 16), CitationRole.ANSWER)
ENDING = Episode(method="m", question=Question("How high is it?"))


def ended(outcome: Outcome, reason: str = "answer", **fields: object) -> Episode:
    last = Step(number=0, action=Action.STOP, reason=reason)
    return ENDING.model_copy(update={"outcome": outcome, "steps": (*ENDING.steps, last), **fields})


def test_why_it_stopped_has_the_percentage_and_no_comparison() -> None:
    answered = ended(Outcome.ANSWERED, answerability=0.84, answer="x")
    assert explain_episode(answered).stopped == "the question can be answered now; 84% likely right"
    declined = ended(Outcome.ABSTAINED, "abstain-unsure", answerability=0.2)
    told = "not sure enough to answer"
    assert explain_episode(declined).stopped == told, "nothing is given that could be likely right"
    guessed = declined.model_copy(update={"best_guess": "28 m"})
    assert explain_episode(guessed).stopped == f"{told}; the guess is 20% likely right"


def test_what_would_change_its_mind_depends_on_how_it_ended() -> None:
    answered = ended(Outcome.ANSWERED, answerability=0.9, answer="28 m", citations=(CITED,))
    assert mentions(explain_episode(answered).would_change, "document", "contradicts", "quoted")
    declined = ended(Outcome.ABSTAINED, "stop:budget", answerability=0.1, best_guess="Linz")
    told = explain_episode(declined, ["Linz"], name_options=True).would_change
    assert "\u201cLinz\u201d" in told and "budget.rounds" in told and "--best-guess" in told
    told = explain_episode(declined, ["Linz"]).would_change
    assert mentions(told, "\u201cLinz\u201d", "more searches", "budget") and "--" not in told
    stopped = ended(Outcome.STOPPED, "stop:not-worth", answerability=0.4, answer="x")
    assert "--" not in explain_episode(stopped, name_options=True).would_change
    failed = ended(Outcome.FAILED, error=Failure(cause="c", message="e", remedy="Start the server."))
    assert explain_episode(failed).would_change == "Start the server."


def test_words_that_nothing_read_mentions_are_found_as_they_are_written() -> None:
    passages = [Passage("p", "Graz", "The clock tower is high.")]
    assert find_uncovered("How high is the tower of Linz in DIN-A4?", passages) == ("Linz", "DIN-A4")
    assert find_uncovered("How high is the tower?", passages) == ()


def test_a_word_is_mentioned_in_any_of_its_forms_and_asking_is_not_about_anything() -> None:
    passages = [Passage("p", "", "Trips that cost more than 800 euros need an approval.")]
    assert find_uncovered("Who approves a trip?", passages) == ()
    assert find_uncovered("Please list all trips, and how many we need", passages) == ()
    assert find_uncovered("Who approves my flights?", passages) == ("flights",)
    assert find_uncovered("What\u2019s the CEO's number, and don't you need Sam\u2019s?", passages) == ("CEO", "Sam")


def test_a_declined_question_names_what_is_missing_and_a_partial_count_what_was_read() -> None:
    declined = ended(Outcome.ABSTAINED, "abstain-unsure", sources=("p",), collection=9)
    (note,) = explain_episode(declined, ["car", "red"]).notes
    assert note == "Missing: no passage read mentions \u201ccar\u201d or \u201cred\u201d."
    assert mentions(*explain_episode(declined).notes, "Missing", "none states the answer")
    assert mentions(*explain_episode(declined.model_copy(update={"sources": ()})).notes, "no passage matches")
    counted = ended(Outcome.ANSWERED, answer="3", sources=("p",), collection=9)
    assert explain_episode(counted, whole=True).notes == ("Only 1 of 9 passages were read.",)
    assert explain_episode(counted).notes == ()
