"""Fits the ranker of linked retrieval from labelled questions. Only fitting needs scikit-learn.

A question gives one row for each passage that linked retrieval looks at. A row is right where the passage is needed:
where it is named as supporting, or else where it holds an answer word for word. Passages that hold the answer beside
the supporting ones count neither way: whether they would have done as well is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.errors import CalibrationError, explain_missing_extra
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever
from beliefrag.retrieval.linked.ranking import FEATURES, BoostedTrees, Ranker, Rerank

LEAST_QUESTIONS = 30
"""With fewer questions the shipped ranker is better than one that is fitted on them."""

_KEPT = 40
_PARTS = 4
_TREES = 120
_LEAVES = 15
_RATE = 0.1
_SHRINKAGE = 20.0
_PENALTY = 0.3

Floats = NDArray[np.float32]
_Rows = tuple[Floats, NDArray[np.bool_], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class RankerExample:
    """The candidates of one question."""

    features: Floats
    needed: NDArray[np.bool_]
    weights: NDArray[np.float64]
    """How much each candidate counts; 0 where it is unknown whether it is needed."""
    again: Rerank

    @property
    def is_usable(self) -> bool:
        """Whether a needed passage is among the candidates: else there is nothing to learn from them."""
        return bool(self.needed.any())


def collect_example(
    retriever: LinkedRetriever,
    question: str,
    needed: Collection[str],
    *,
    may_help: Callable[[str], bool] = lambda _: False,
    weight: float = 1.0,
) -> RankerExample | None:
    """Gather the candidates of a question with their labels; None if the search finds nothing.

    `needed` are the ids of the passages that are needed; `may_help` says of another whether it holds the answer too.
    """
    ranking = retriever.rank(question)
    if ranking is None:
        return None
    ids = [retriever.graph.passage_id(number) for number in ranking.passages]
    is_needed = np.array([one in needed for one in ids])
    unknown = np.array([not wanted and may_help(one) for one, wanted in zip(ids, is_needed, strict=True)])
    return RankerExample(ranking.features, is_needed, np.where(unknown, 0.0, weight), ranking.again)


def fit_ranker(
    examples: Sequence[RankerExample], *, name: str, about: Mapping[str, Any], trees: int = _TREES
) -> Ranker:
    """Fit a linear first cut and boosted trees to the candidates of many questions."""
    usable = [each for each in examples if each.is_usable]
    if len(usable) < LEAST_QUESTIONS:
        raise CalibrationError(
            f"{len(usable)} of {len(examples)} questions have a needed passage among their candidates, and a ranker "
            f"needs {LEAST_QUESTIONS}.",
            remedy="Give more questions, or answers that are in the documents word for word.",
        )
    # The second look must see the first as it is on questions that it was not fitted on.
    seen: list[_Rows] = []
    for part in range(_PARTS):
        first = _fit_first_look([each for at, each in enumerate(usable) if at % _PARTS != part], trees)
        for each in usable[part::_PARTS]:
            kept, rows = first.look_twice(each.features, each.again.features)
            seen.append((rows, each.needed[kept], each.weights[kept]))
    origin = {
        **about,
        "name": name,
        "questions": len(usable),
        "rows": sum(len(each.features) for each in usable),
        "trees": trees,
        "kept": _KEPT,
    }
    return replace(_fit_first_look(usable, trees), name=name, second=_fit_trees(seen, trees), about=origin)


def _fit_first_look(examples: Sequence[RankerExample], trees: int) -> Ranker:
    """Fit the linear cut and the first trees; its second look is unfitted."""
    with explain_missing_extra("A fit", "bench"):
        from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    rows, needed, weights = _stack([(each.features, each.needed, each.weights) for each in examples])
    mean, spread = rows.mean(0), rows.std(0) + 1e-6
    linear = LogisticRegression(C=_PENALTY, max_iter=400)
    linear.fit((rows - mean) / spread, needed, sample_weight=weights)
    coefficients = (linear.coef_[0] / spread).astype(np.float32)
    intercept = float(linear.intercept_[0] - (linear.coef_[0] * mean / spread).sum())
    cut = replace(unfitted_ranker(), weights=coefficients, intercept=intercept)
    seen = []
    for each in examples:
        kept, kept_rows = cut.look_once(each.features)
        seen.append((kept_rows, each.needed[kept], each.weights[kept]))
    return replace(cut, trees=_fit_trees(seen, trees))


def _fit_trees(examples: Sequence[_Rows], trees: int) -> BoostedTrees:
    # Imported here: answering needs none of it.
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415

    rows, needed, weights = _stack(examples)
    boosted = HistGradientBoostingClassifier(
        max_iter=trees,
        max_leaf_nodes=_LEAVES,
        learning_rate=_RATE,
        l2_regularization=_SHRINKAGE,
        random_state=0,
        early_stopping=False,
    )
    boosted.fit(rows, needed, sample_weight=weights)
    return _take_trees(boosted)


def _take_trees(model: Any) -> BoostedTrees:
    """Take the trees out of a fitted `HistGradientBoostingClassifier` of two classes without missing values."""
    held = [each[0].nodes for each in model._predictors]
    shape = (len(held), max(map(len, held)))
    feature, left, right = (np.zeros(shape, np.int16) for _ in range(3))
    threshold, value = np.full(shape, np.inf, np.float32), np.zeros(shape, np.float32)
    own = np.arange(shape[1], dtype=np.int16)
    for row, nodes in enumerate(held):
        count, leaf = len(nodes), nodes["is_leaf"].astype(bool)
        feature[row, :count] = np.where(leaf, 0, nodes["feature_idx"])
        # Thresholds become 32-bit numbers that are not above the 64-bit ones, as the features are.
        exact = np.where(leaf, np.inf, nodes["num_threshold"])
        rounded = exact.astype(np.float32)
        below = np.nextafter(rounded, np.float32(-np.inf))
        threshold[row, :count] = np.where(rounded > exact, below, rounded)
        left[row] = right[row] = own
        left[row, :count] = np.where(leaf, own[:count], nodes["left"])
        right[row, :count] = np.where(leaf, own[:count], nodes["right"])
        value[row, :count] = np.where(leaf, nodes["value"], 0)
    depth = max(int(nodes["depth"].max()) for nodes in held)
    return BoostedTrees(feature, threshold, left, right, value, float(np.ravel(model._baseline_prediction)[0]), depth)


def _stack(examples: Sequence[_Rows]) -> _Rows:
    rows, needed, weights = (np.concatenate(column) for column in zip(*examples, strict=True))
    return rows, needed, weights


def unfitted_ranker() -> Ranker:
    """Return a ranker that ranks all candidates alike, to gather examples with."""
    leaf = np.zeros((1, 1), np.int16)
    nothing = np.zeros((1, 1), np.float32)
    trees = BoostedTrees(leaf, nothing, leaf, leaf, nothing, 0.0, 0)
    return Ranker("unfitted", np.zeros(len(FEATURES), np.float32), 0.0, _KEPT, trees, trees, {})
