"""Imperfect evidence in a run: what is injected into the hits of its searches, and what came of it.

The gold answers are needed to make a passage lie and to keep the answer out of the noise. They stay here: an episode is
handed a retriever, and a controller only ever sees hits.
"""

from __future__ import annotations

from dataclasses import replace

from beliefrag.bench.counterfactuals import FalseAnswers, Falsehood, own_false_ids
from beliefrag.bench.metrics import covers
from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion
from beliefrag.retrieval.injection import InjectedRetriever
from beliefrag.retrieval.protocol import Retriever
from beliefrag.runs.episode import Episode, Injected
from beliefrag.runs.record import Injection
from beliefrag.types import Passage

__all__ = ["Injection", "Injector", "misled", "searched_passages"]


def searched_passages(dataset: Dataset) -> tuple[Passage, ...]:
    """What there is to search. False passages that a dataset brings come by injection alone, where that is wanted."""
    false = own_false_ids(dataset.questions)
    return tuple(passage for passage in dataset.passages if passage.id not in false)


class Injector:
    """Makes the retriever of each episode of one dataset.

    Args:
        dataset: Whole: false answers are drawn from all of its questions, noise from all that is searched.
        injection: How much.
    """

    def __init__(self, dataset: Dataset, injection: Injection) -> None:
        self._injection = injection
        self._pool = searched_passages(dataset)
        self._false = FalseAnswers(dataset.questions, dataset.passages, injection.seed)

    def falsehood(self, labelled: LabelledQuestion) -> Falsehood | None:
        """What passages claim in place of the truth; None where nothing false is injected or can be."""
        return self._false.of(labelled) if self._injection.counterfactual else None

    def wrap(self, retriever: Retriever, labelled: LabelledQuestion) -> InjectedRetriever:
        """The retriever for one episode on that question."""
        falsehood = self.falsehood(labelled)
        return InjectedRetriever(
            retriever,
            noise=self._injection.noise,
            pool=self._pool,
            about=labelled.question.text,
            unfit=lambda passage: _helps(passage, labelled.gold),
            counterfactual=self._injection.counterfactual,
            false_version=falsehood.version if falsehood else lambda _: None,
            false_passages=falsehood.passages if falsehood else (),
            seed=f"{self._injection.seed}/{labelled.id}",
        )

    def add_injected(self, episode: Episode, retriever: InjectedRetriever, labelled: LabelledQuestion) -> Episode:
        """The episode with what was injected into it and, where it ended, whether it was misled."""
        falsehood = self.falsehood(labelled)
        metrics = dict(episode.metrics)
        if metrics and falsehood is not None:
            metrics |= misled(episode.answer, labelled.gold, falsehood.answer)
            metrics["false_read"] = float(len(retriever.false_ids))
        injected = Injected(tuple(retriever.noise_ids), tuple(retriever.false_ids))
        return replace(episode, metrics=metrics, injected=injected)


def misled(answer: str | None, gold: Gold, false_answer: str) -> dict[str, float]:
    """Whether an answer follows a false claim, and whether it has the truth all the same; an abstention does neither.

    An answer that names both has the truth: it does not follow.
    """
    if answer is None:
        return {"follows_false": 0.0, "recovers_true": 0.0}
    right = covers(answer, gold)
    return {
        "follows_false": float(not right and covers(answer, Gold((false_answer,)))),
        "recovers_true": float(right),
    }


def _helps(passage: Passage, gold: Gold) -> bool:
    if passage.id in (gold.supporting or ()):
        return True
    return not gold.is_set and covers(f"{passage.title} {passage.text}", Gold(gold.answers))
