"""Imperfect evidence in a run: what is injected into the hits of its searches, and what came of it.

The gold answers are needed to choose false passages and to keep the answer out of the noise. They stay here: an episode
is handed a retriever, and a controller only ever sees hits. False passages are those that a dataset brings: RGB has one
with another answer for each passage that answers.
"""

from __future__ import annotations

from collections.abc import Mapping

from beliefrag.bench.metrics import covers
from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion, wrong_ids
from beliefrag.record import Episode, Injected
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.retrieval.protocol import Retriever
from beliefrag.runs.record import Injection
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage


def passages_to_search(dataset: Dataset) -> tuple[Passage, ...]:
    """Return the passages to search. False passages that a dataset brings are searched only where they are injected."""
    false = {each for question in dataset.questions for each in wrong_ids(question.gold)}
    return tuple(passage for passage in dataset.passages if passage.id not in false)


class Injector:
    """The maker of the retrievers of one dataset, one for each episode. Noise is drawn from all of its passages."""

    def __init__(self, dataset: Dataset, injection: Injection) -> None:
        self._injection = injection
        self._pool = passages_to_search(dataset)
        self._passages = {passage.id: passage for passage in dataset.passages}
        if injection.counterfactual and not any(wrong_ids(question.gold) for question in dataset.questions):
            raise DataError(
                f"{dataset.name} has no false passages to inject.",
                remedy="Use the questions of RGB's en_fact.json, or leave run.counterfactual out.",
            )

    def wrap(self, retriever: Retriever, labelled: LabelledQuestion) -> InjectedRetriever:
        """Return the retriever for one episode on that question."""
        versions = self._false_versions(labelled.gold)
        return InjectedRetriever(
            retriever,
            noise=self._injection.noise,
            pool=self._pool,
            about=labelled.question.text,
            unfit=lambda passage: _helps(passage, labelled.gold),
            counterfactual=self._injection.counterfactual,
            false_version=lambda passage: versions.get(passage.id),
            false_passages=tuple(dict.fromkeys(versions.values())),
            seed=f"{self._injection.seed}/{labelled.id}",
        )

    def add_injected(self, episode: Episode, retriever: InjectedRetriever, labelled: LabelledQuestion) -> Episode:
        """Return the episode with what was injected into it and, if it finished, whether it was misled."""
        metrics = dict(episode.metrics)
        if metrics and labelled.gold.fake_answer and self._false_versions(labelled.gold):
            metrics |= score_misled(episode.answer, labelled.gold, labelled.gold.fake_answer)
            metrics["false_read"] = float(len(retriever.false_ids))
        injected = Injected(noise=tuple(retriever.noise_ids), counterfactual=tuple(retriever.false_ids))
        return episode.model_copy(update={"metrics": metrics, "injected": injected})

    def _false_versions(self, gold: Gold) -> Mapping[str, Passage]:
        """Return the false passages of a question by the ids of those that they are versions of, in the same order."""
        wrong, right = wrong_ids(gold), gold.supporting or ()
        if not self._injection.counterfactual or not gold.fake_answer or len(wrong) != len(right):
            return {}
        return {own: self._passages[false] for own, false in zip(right, wrong, strict=True) if false in self._passages}


def score_misled(answer: str | None, gold: Gold, false_answer: str) -> dict[str, float]:
    """Return whether an answer follows a false claim and lacks the truth, and whether it has the truth."""
    right = answer is not None and covers(answer, gold)
    follows = answer is not None and not right and covers(answer, Gold((false_answer,)))
    return {"follows_false": float(follows), "recovers_true": float(right)}


def _helps(passage: Passage, gold: Gold) -> bool:
    if passage.id in (gold.supporting or ()):
        return True
    return not gold.is_set and covers(f"{passage.title} {passage.text}", Gold(gold.answers))
