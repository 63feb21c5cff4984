"""Conversations: whether a follow-up refers back, what a prompt shows of the turns before it, and what is kept of them.

A follow-up that refers back is rewritten into a question that stands alone, in one model call. A local rule saves that
call for questions that plainly stand alone. It knows English; a follow-up in any other language is always rewritten.
All functions are lexical and pure, and ask no model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from beliefrag.answering.packing import EMPTY_WORDS, FUNCTION_WORDS, cover_words, lower_words
from beliefrag.explanation import ask_back
from beliefrag.prompts import escape
from beliefrag.record import Episode, Progress
from beliefrag.types import Hit, Turn

MOST_TURNS = 6
"""The turns that a conversation keeps, the latest ones."""
_SHOWN_WORDS = 40
"""The words of an earlier question or answer that the prompt of the rewriter shows."""
_LEAST_WORDS = 3
"""A question with fewer words of its own may be about what was said before."""
_MOST_UNCLEAR = 2
"""A question with more words of its own is searched for, whatever its pronouns refer to."""
_CARRIED = 0.6
"""The share of a question's own words that earlier passages must hold to be read again for it."""

_ENGLISH = FUNCTION_WORDS["english"]
"""Words that English questions have and that are rare in other languages."""
_LIGHT_WORDS = EMPTY_WORDS | FUNCTION_WORDS["light"]
"""Words that say nothing about what is searched for, in English."""
_REFERENCE = re.compile(
    r"\b(?:he|him|his|she|hers?|they|them|theirs?|its?|these|those|ones|former|latter|such|"
    r"this(?!\s+(?:year|month|week|morning|evening|time|century|decade)\b)|another|(?:the\s+)?others?|the\s+same|"
    r"(?:that|there|one|else|then|instead|so|not|too)(?=\s*[?.!]*$))\b",
    re.IGNORECASE,
)
_PRONOUNS = frozenset(["he", "him", "his", "she", "her", "hers", "they", "them", "their", "theirs", "it", "its"])
_POINTERS = frozenset({"this", "these", "those", "such", "another", "other", "others", "same"})
"""References to what was said before even where the question names something else."""
_OPENS = re.compile(
    r"\W*(?:and|but|or|so|then|also|ok|okay|yes|no|thanks|sorry|really|what about|how about|what else|who else|why not|"
    r"if so|in that case|that|i (?:mean|meant)|you (?:say|said|mean|meant)|is that)\b",
    re.IGNORECASE,
)
"""How English follow-ups begin that continue what was said."""
_EXPLETIVE = re.compile(
    r"\b(?:is|was|be|makes?)\s+it\s+(?:\w+\s+){1,4}(?:to|that|if|for|when|\w+ing)\b"
    r"|\bdoes\s+it\s+(?:take|cost)\b.*\bto\b|\bit\s+(?:is|was|takes?|took|costs?)\s+(?:\w+\s+){0,4}(?:to|that)\b"
    r"|\btime is it\b",
    re.IGNORECASE,
)
"""Where `it` refers to nothing."""
_ANTECEDENT = re.compile(
    r"(?<=[\w,;] )[^\W\d_a-z]\w+|\d|[\"\u201c\u2018]\w|\b(?:an?|the|my|your|our|each|every|any|some|which|what|whose|"
    r"many|both)\s+\w{3,}|\bpeople\b"
)
"""What a pronoun later in the same question can refer to: a name, a number, or a noun after a determiner."""


def bound_history(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Return the turns that a conversation keeps."""
    return tuple(turns)[-MOST_TURNS:]


def add_turn(turns: Sequence[Turn], progress: Progress) -> tuple[Turn, ...]:
    """Return the turns with one more where an episode has ended well; nothing else of an episode is kept."""
    if not (isinstance(progress, Episode) and progress.finished):
        return tuple(turns)
    return bound_history((*turns, make_turn(progress)))


def make_turn(episode: Episode) -> Turn:
    """Return what a conversation keeps of an episode: question, answer, and the passages that were read at its end."""
    scores: dict[str, float] = {hit.passage.id: hit.score for hit in episode.carried}
    for step in episode.steps:
        for name, score in step.search.hits if step.search else ():
            scores[name] = max(score, scores.get(name, score))
    found = tuple(Hit(passage, scores.get(passage.id, 0.0)) for passage in episode.read_passages)
    return Turn(episode.asked, episode.answer or ask_back(episode) or "", found, describe_searched(episode.made_with))


def describe_searched(made_with: Mapping[str, str]) -> str:
    """Return which state of which passages an episode searches, and with which filter."""
    return f"{made_with.get('corpus', '')} {made_with.get('where', '')}"


def describe_history(turns: Sequence[Turn]) -> str:
    """Return the turns as a prompt shows them, the latest last, each question and answer cut to a few words."""
    lines = []
    for turn in turns:
        lines += [f"Question: {_cut(turn.question)}", f"Answer: {_cut(turn.answer)}"]
    return "\n".join(lines)


def stands_alone(question: str) -> bool:
    """Return whether a follow-up plainly needs nothing of what was said before; False for languages other than English.

    It does if it refers to nothing outside of itself, does not continue a sentence, and has enough words of its own.
    """
    words = lower_words(question)
    own = [word for word in words if word not in _LIGHT_WORDS]
    if not _ENGLISH.intersection(words) or _OPENS.match(question) or len(own) < _LEAST_WORDS:
        return False
    return find_reference(question) is None


def keeps_words(question: str, rewritten: str) -> bool:
    """Return whether a rewritten follow-up still has most of its own words: else it asks something else."""
    own = [word for word in dict.fromkeys(lower_words(question)) if word not in _LIGHT_WORDS]
    return 2 * sum(cover > 0 for cover in cover_words(own, lower_words(rewritten))) >= len(own)


def find_reference(question: str) -> str | None:
    """Return the first English word that refers to something outside of the question, or None."""
    plain = _EXPLETIVE.sub(lambda found: " " * len(found[0]), question)
    for reference in _REFERENCE.finditer(plain):
        pointer = reference[0].lower().removeprefix("the ") in _POINTERS
        if pointer or not _ANTECEDENT.search(question[: reference.start()]):
            return reference[0]
    return None


def find_unclear(question: str) -> str | None:
    """Return the words that make an English question unclear by itself; None if it can be searched for.

    That is a pronoun that refers to nothing, where the question has hardly a word of its own ("How much is it?"), or
    the whole question where it has none ("Why?"). `this study` may be the document at hand, and is searched for.
    """
    words = lower_words(question)
    own = [word for word in words if word not in _LIGHT_WORDS]
    if words and not own:
        return find_reference(question) or " ".join(question.split())
    if len(own) > _MOST_UNCLEAR or not _ENGLISH.intersection(words):
        return None
    reference = find_reference(question)
    return reference if reference and reference.lower() in _PRONOUNS else None


def carry_passages(question: str, turns: Sequence[Turn], searched: str = "") -> tuple[Hit, ...]:
    """Return the passages of the latest turn that read any, if they hold most of what this question asks about.

    What was found in other passages, or with another filter than is `searched` now, is not among them.
    """
    found = next((turn.found for turn in reversed(turns) if turn.found and turn.searched in ("", searched)), ())
    own = [word for word in dict.fromkeys(lower_words(question)) if word not in _LIGHT_WORDS]
    held = [word for hit in found for word in lower_words(f"{hit.passage.title} {hit.passage.text}")]
    covered = sum(cover > 0 for cover in cover_words(own, held))
    return found if own and covered >= _CARRIED * len(own) else ()


def _cut(text: str) -> str:
    words = escape(text).split()
    return " ".join([*words[:_SHOWN_WORDS], *(["\u2026"] if len(words) > _SHOWN_WORDS else [])])
