"""CRAG: grade each passage; where none is good, prune, correct the query and search again; answer from strips."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, View
from beliefrag.errors import ReplyError, UnreadableReply
from beliefrag.methods import METHODS, CostWithVerifier, TypicalCost
from beliefrag.methods.decisions import answer, can_search, search, stop
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import Repairs, escape, evidence_block, read_json_object
from beliefrag.retrieval.bm25 import query_terms
from beliefrag.retrieval.documents import split_sentences
from beliefrag.types import Action, Comparison, Decision, Passage
from beliefrag.verifiers import VERIFIERS, read_score
from beliefrag.verifiers.probability import ask_yes_or_no

_SEPARATE_CALLS = dict.fromkeys(("probability", "slots"), TypicalCost(10, 4_860, 46))
"""What an episode costs where each passage is graded by the probability of yes."""


@METHODS.register(
    "crag",
    title="CRAG",
    summary="Grades each passage; where none is good, drops poor ones, corrects the query and searches again.",
    cost=CostWithVerifier(3.3, 2_900, 60, looks=0.0, measured=_SEPARATE_CALLS),
    thresholds_from="the authors' values for PopQA, moved to our scale; of five on 20 train questions none is better",
)
@dataclass(frozen=True, slots=True)
class Crag:
    """Corrective retrieval: grade each passage, and correct the query where none is good (Yan et al., 2024).

    Ambiguous evidence loses its poor passages. Incorrect evidence is kept: the same collection is searched again, and a
    dropped passage could never come back. The original trains its grader, grades strips too and turns to a web search;
    here the shared model grades, and strips are chosen by their words.
    """

    name: ClassVar[str] = "crag"
    correct: float = 0.796
    """The grade from which on one passage makes the evidence correct."""
    incorrect: float = 0.0025
    """The grade below which a passage is poor; if all are, the evidence is incorrect."""
    strips: int = 10
    """How many strips (sentences) the answer prompt shows; 0 shows whole passages."""

    def __post_init__(self) -> None:
        if not self.incorrect <= self.correct:
            raise ValueError(f"incorrect must not be above correct, not {self.incorrect} above {self.correct}")
        if self.strips < 0:
            raise ValueError(f"strips is at least 0, not {self.strips}")

    def begin(self) -> Controller:
        """Return a controller that remembers the grades."""
        return _Controller(self)


class _Controller:
    def __init__(self, method: Crag) -> None:
        self._method = method
        self._grades: dict[str, float] = {}

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        # Graded after each search, and only where something can still follow from the grade.
        if view.actions[-1:] == (Action.RETRIEVE,) and Action.REWRITE in view.legal:
            new = [passage for passage in view.answer_window if passage.id not in self._grades]
            if VERIFIERS[calls.verifier].needs_token_probabilities:
                await self._grade_separately(view, new, calls)
            elif new:
                await self._grade_together(view, new, calls)
        return Measurement()

    async def _grade_separately(self, view: View, passages: Sequence[Passage], calls: ModelCalls) -> None:
        for passage in passages:
            fields = {"question": escape(view.question.text), "evidence": evidence_block([passage])}
            try:
                grade = await ask_yes_or_no(calls, "verifier_helps", fields, purpose="grader")
            except UnreadableReply:
                continue
            self._grades[passage.id] = grade
            if grade >= self._method.correct:
                return

    async def _grade_together(self, view: View, passages: Sequence[Passage], calls: ModelCalls) -> None:
        fields = {"question": escape(view.question.text), "evidence": evidence_block(passages)}

        def read(reply: ChatReply, repairs: Repairs) -> list[float]:
            grades = read_json_object(reply.text, repairs).get("grades")
            if not isinstance(grades, list) or len(grades) != len(passages):
                raise ReplyError(f"grades is not a list of {len(passages)} numbers.")
            return [read_score({"grade": grade}, "grade", repairs) for grade in grades]

        try:
            grades = await calls.ask("grader", "grader", fields, read, schema=_grades_schema(len(passages)))
        except UnreadableReply:
            return
        self._grades |= dict(zip((passage.id for passage in passages), grades, strict=True))

    def decide(self, view: View, measurement: Measurement) -> Decision:
        match view.actions[-1:]:
            case () if can_search(view):
                return search(view, "question")
            case (Action.VERIFY,) if Action.REWRITE in view.legal:
                return _correct_query(view, "dropped-poor")
            case (Action.REWRITE,) if can_search(view):
                return search(view, "corrected-query")
            case (Action.RETRIEVE,):
                return self._judge(view)
        return self._end(view)

    def _judge(self, view: View) -> Decision:
        grades = {passage.id: self._grades[passage.id] for passage in view.passages if passage.id in self._grades}
        best, method = max(grades.values(), default=0.0), self._method
        correct = Comparison("best grade", best, "at least", method.correct, best >= method.correct)
        if correct.holds:
            return replace(answer(view, "graded-correct", correct), shown=self._refine(view))
        if Action.REWRITE not in view.legal:
            return self._end(view)
        if not view.passages:
            return _correct_query(view, "nothing-found")
        # A passage whose grade could not be read is not condemned: what is dropped can never come back.
        poor = tuple(each for each, grade in grades.items() if grade < method.incorrect)
        if len(poor) == len(view.passages):
            incorrect = Comparison("best grade", best, "below", method.incorrect, True)
            return _correct_query(view, "none-relevant", incorrect)
        if poor and view.correction_fits:
            return Decision(Action.VERIFY, "prune:in-part", (correct,), view.legal, drop=poor)
        return _correct_query(view, "in-part", correct)

    def _end(self, view: View) -> Decision:
        ending = answer(view, "nothing-missing") if view.nothing_missing else stop(view)
        return replace(ending, shown=self._refine(view))

    def _refine(self, view: View) -> tuple[Passage, ...]:
        """Return what the answer prompt shows: the best strips of the passages that are not poor, of all if all are."""
        window = view.answer_window
        good = tuple(p for p in window if self._grades.get(p.id, 1.0) >= self._method.incorrect) or window
        return keep_best_strips(view.question.text, good, self._method.strips) if self._method.strips else good


def _grades_schema(count: int) -> dict[str, object]:
    numbers = {"type": "array", "items": {"type": "number"}, "minItems": count, "maxItems": count}
    return {"type": "object", "properties": {"grades": numbers}, "required": ["grades"], "additionalProperties": False}


def _correct_query(view: View, reason: str, *compared: Comparison) -> Decision:
    return Decision(Action.REWRITE, f"rewrite:{reason}", compared, view.legal, reads_evidence=True)


def keep_best_strips(question: str, passages: Sequence[Passage], most: int) -> tuple[Passage, ...]:
    """Keep the best strips (sentences) of the passages, at most `most` over all; a passage without one is left out.

    A strip counts by the words that it shares with the question and with the titles of the other passages, rare words
    more. The title of a passage counts as part of its first strip. Of equal strips the earlier one is kept.
    """
    cut = [list(split_sentences(passage.text)) or [passage.text] for passage in passages]
    if sum(map(len, cut)) <= most:
        return tuple(passages)
    titles = [set(query_terms(passage.title)) for passage in passages]
    strips = [
        (place, position, set(query_terms(text)) | (titles[place] if position == 0 else set()))
        for place, texts in enumerate(cut)
        for position, text in enumerate(texts)
    ]
    seen_in = Counter(word for _, _, words in strips for word in words)
    asked = set(query_terms(question))

    def weigh(place: int, words: set[str]) -> float:
        others = set().union(*(title for other, title in enumerate(titles) if other != place))
        return sum(math.log(1 + len(strips) / seen_in[word]) for word in words & (asked | (others - titles[place])))

    ranked = sorted(strips, key=lambda strip: (-weigh(strip[0], strip[2]), strip[1], strip[0]))
    kept = {(place, position) for place, position, _ in ranked[:most]}
    shown = (
        replace(passage, text=" ".join(text for position, text in enumerate(texts) if (place, position) in kept))
        for place, (passage, texts) in enumerate(zip(passages, cut, strict=True))
    )
    return tuple(passage for passage in shown if passage.text)
