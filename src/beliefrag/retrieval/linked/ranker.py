"""The fitted ranker: a linear first cut and boosted trees that look twice, evaluated with numpy alone.

Fitting needs scikit-learn, answering does not. A ranker is one `.npz` file without pickled objects; `about` in it says
on what it was fitted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beliefrag.errors import SettingsError
from beliefrag.retrieval.linked.features import FEATURES
from beliefrag.retrieval.linked.rerank import RERANK_FEATURES

Floats = NDArray[np.float32]
LookAgain = Callable[[NDArray[np.int64], NDArray[np.float64]], Floats]

_ARRAYS = ("feature", "threshold", "left", "right", "value")


@dataclass(frozen=True, slots=True)
class BoostedTrees:
    """The sum of many small trees, as a logit.

    All arrays have one row per tree and one column per node, filled up with leaves. A leaf leads to itself, so every
    walk takes `depth` steps and needs no test for the end.
    """

    feature: NDArray[np.int16]
    threshold: Floats
    left: NDArray[np.int16]
    right: NDArray[np.int16]
    value: Floats
    start: float
    depth: int

    def logits(self, rows: Floats) -> NDArray[np.float64]:
        """Gives the logit of each row."""
        trees, nodes = self.feature.shape
        base = (np.arange(trees) * nodes)[:, None]
        at = np.broadcast_to(base, (trees, len(rows)))
        feature, threshold = self.feature.ravel(), self.threshold.ravel()
        # Left and right of a node lie side by side, so one lookup serves both.
        children = (np.stack((self.right, self.left), -1).astype(np.int64) + base[:, :, None]).ravel()
        columns = np.ascontiguousarray(rows.T).ravel()
        across = np.arange(len(rows))[None, :]
        for _ in range(self.depth):
            goes_left = columns[feature[at].astype(np.int64) * len(rows) + across] <= threshold[at]
            at = children[2 * at + goes_left]
        result: NDArray[np.float64] = self.value.ravel()[at].sum(0, dtype=np.float64) + self.start
        return result

    @classmethod
    def from_fitted(cls, model: Any) -> BoostedTrees:
        """Takes the trees out of a fitted `HistGradientBoostingClassifier` of two classes without missing values."""
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
        return cls(feature, threshold, left, right, value, float(np.ravel(model._baseline_prediction)[0]), depth)


@dataclass(frozen=True, slots=True)
class Ranker:
    """Gives the probability that a candidate is needed to answer the question."""

    name: str
    """Names the fit in identities: a short name and eight digits of the file's hash."""
    weights: Floats
    """The linear first cut: its best `kept` candidates reach the trees."""
    intercept: float
    kept: int
    trees: BoostedTrees
    """The first look at the kept candidates, each by itself."""
    second: BoostedTrees
    """The second look: the same, and how they stand to each other."""
    about: dict[str, Any]

    def rank(self, rows: Floats, look_again: LookAgain) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Gives the places of the best candidates, best first, with their probabilities.

        Equally good ones stay in the order in which they came.

        Args:
            rows: The features of the first look.
            look_again: Gives the further features of the second look, from the kept places and their logits.
        """
        kept, again = self.look_twice(rows, look_again)
        logits = self.second.logits(again)
        order = np.argsort(-logits, kind="stable")
        return kept[order], 1 / (1 + np.exp(-logits[order]))

    def look_once(self, rows: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Gives the places of the candidates that the linear cut keeps, and what the first trees see of them."""
        linear = (rows @ self.weights + np.float32(self.intercept)).astype(np.float32)
        kept = np.sort(np.argsort(-linear, kind="stable")[: self.kept])
        return kept, np.concatenate((rows[kept], linear[kept, None]), axis=1)

    def look_twice(self, rows: Floats, look_again: LookAgain) -> tuple[NDArray[np.int64], Floats]:
        """Gives the places of the kept candidates, and what the second trees see of them."""
        kept, first = self.look_once(rows)
        return kept, np.concatenate((first, look_again(kept, self.trees.logits(first))), axis=1)

    def save(self, path: Path) -> None:
        """Writes the ranker to a file."""
        trees: dict[str, Any] = {
            f"{look}_{name}": np.asarray(getattr(held, name))
            for look, held in (("first", self.trees), ("second", self.second))
            for name in (*_ARRAYS, "start", "depth")
        }
        about = json.dumps({**self.about, "features": [*FEATURES, *RERANK_FEATURES]}, sort_keys=True)
        np.savez_compressed(
            path,
            **trees,
            weights=self.weights,
            intercept=np.float64(self.intercept),
            kept=np.int64(self.kept),
            about=np.array(about),
        )


def load_ranker(path: Path | None = None) -> Ranker:
    """Loads a ranker: the one that is shipped, or one that was fitted on questions of one's own.

    Raises:
        SettingsError: The file cannot be read, or it was fitted on other features than these.
    """
    try:
        data = (files("beliefrag.retrieval.linked") / "ranker.npz" if path is None else path).read_bytes()
        with np.load(BytesIO(data), allow_pickle=False) as held:
            about = json.loads(str(held["about"]))
            if about.pop("features") != [*FEATURES, *RERANK_FEATURES]:
                raise SettingsError(
                    f"The ranker {path or 'of this package'} was fitted on other features than this version computes.",
                    remedy="Fit it again.",
                )
            first, second = (
                BoostedTrees(
                    **{name: held[f"{look}_{name}"] for name in _ARRAYS},
                    start=float(held[f"{look}_start"]),
                    depth=int(held[f"{look}_depth"]),
                )
                for look in ("first", "second")
            )
            rest = held["weights"], float(held["intercept"]), int(held["kept"])
    except (OSError, ValueError, KeyError) as problem:
        raise SettingsError(
            f"The ranker {path} cannot be read: {problem}.",
            remedy="Name a file that `beliefrag calibrate ranker` wrote.",
        ) from problem
    name = f"{about.get('name', 'ranker')}-{hashlib.sha256(data).hexdigest()[:8]}"
    return Ranker(name, *rest, first, second, about)
