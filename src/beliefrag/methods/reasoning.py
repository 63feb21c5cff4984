"""A chain of reasoning, written one sentence at a time: what IRCoT and FLARE share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from beliefrag.engine.controller import View
from beliefrag.engine.replies import one_line
from beliefrag.errors import ReplyError
from beliefrag.prompts import escape, evidence_block
from beliefrag.retrieval.chunk import sentences

__all__ = ["concludes", "fields", "first_sentence", "repeats", "without_lead"]

_LABEL = re.compile(r"\A(?:the\s+)?next\s+sentence\s*:\s*", re.IGNORECASE)
_CONCLUSION = re.compile(r"\banswer\s+is\b", re.IGNORECASE)
_LEAD = re.compile(r"\A(?:so|thus|therefore|hence)?,?\s*(?:the\s+)?(?:final\s+)?answer\s+is\b\s*:?\s*", re.IGNORECASE)


def fields(view: View, written: Sequence[str]) -> dict[str, str]:
    """What the prompt for the next sentence is filled with."""
    return {
        "question": escape(view.question.text),
        "evidence": evidence_block(view.answer_window),
        "reasoning": escape(" ".join(written)) or "none",
    }


def first_sentence(text: str) -> str:
    """The first sentence of a reply; a model that is asked for one often goes on.

    Raises:
        ReplyError: The reply has no words.
    """
    sentence = next(sentences(_LABEL.sub("", one_line(text))), "")
    if not re.search(r"\w", sentence):
        raise ReplyError("The reply holds no sentence.")
    return sentence


def concludes(sentence: str) -> bool:
    """Whether the sentence gives the answer, so that no other follows it.

    As in IRCoT's own exit, "answer is" may stand anywhere in it: models often add the answer to the last fact.
    """
    return _CONCLUSION.search(sentence) is not None


def without_lead(sentence: str) -> str:
    """The sentence without the words that announce the answer: those are no use to a search."""
    return _LEAD.sub("", sentence)


def repeats(sentence: str, written: Sequence[str]) -> bool:
    """Whether the sentence says what an earlier one said: a chain that turns in a circle is at its end."""
    return sentence.casefold().split() in [earlier.casefold().split() for earlier in written]
