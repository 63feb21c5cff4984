"""What the ranker sees when it looks again: how a candidate stands to the others, now that each has a probability.

At the first look the best link of a candidate is the one to the passage that the search likes. Here it is the one to
the passage that is likely needed, so a chain of several steps holds together, and of passages that say the same, or
that share one name, the best is told from the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.candidates import SHARED_KIND, Links

Floats = NDArray[np.float32]

_SIDES = ("in", "out", "with")
_COLUMNS = ("likely", "chain", "gain", "both", "rarity", "homes", "rivals", "sum")
_BEST = 4
RERANK_FEATURES = (
    "logit", "place", "of_best", "likely_sum", "second_likely", "third_likely", "fourth_likely",
    *(f"beyond_{count}" for count in range(1, _BEST + 1)),
    *(f"left_by_{count}" for count in range(1, _BEST + 1)),
    "like_better", "same_title_better",
    *(f"{side}_{column}" for side in _SIDES for column in _COLUMNS),
)  # fmt: skip
"""The columns that the second look adds to those of the first, in order."""


@dataclass(frozen=True, slots=True)
class Rerank:
    """What is known of all candidates of a question when the first look has been taken."""

    weights: Floats
    """How much each word of the question weighs."""
    covered: Floats
    """Which of them stand in each candidate."""
    titles: NDArray[np.int64]
    """A number for the title of each candidate; equal titles have equal numbers."""
    links: Links

    def features(self, kept: NDArray[np.int64], logits: NDArray[np.float64]) -> Floats:
        """Gives one row for each candidate that the first look kept, from what it said of them."""
        return _second_features(kept, logits, self)


def _second_features(kept: NDArray[np.int64], logits: NDArray[np.float64], look: Rerank) -> Floats:
    n, w = len(kept), look.weights
    likely = (1 / (1 + np.exp(-logits))).astype(np.float32)
    best_first = np.argsort(-logits, kind="stable")
    place = np.empty(n, np.int64)
    place[best_first] = np.arange(n)
    covered = look.covered[kept]
    sorted_likely = np.zeros(max(n, _BEST), np.float32)
    sorted_likely[:n] = likely[best_first]
    columns: dict[str, NDArray[np.floating] | float] = {
        "logit": logits.astype(np.float32),
        "place": np.log1p(place).astype(np.float32),
        "of_best": likely / max(float(likely.max()), 1e-6),
        "likely_sum": float(likely.sum()),
        "second_likely": float(sorted_likely[1]),
        "third_likely": float(sorted_likely[2]),
        "fourth_likely": float(sorted_likely[3]),
    }
    # What the best others, without the candidate itself, leave uncovered, and how much of that it covers.
    for count in range(1, _BEST + 1):
        first = best_first[: count + 1].tolist()
        held = np.tile(covered[first[:count]].max(0), (n, 1))
        for at in first[:count]:
            rest = [each for each in first if each != at]
            held[at] = covered[rest].max(0) if rest else 0
        columns[f"beyond_{count}"] = np.maximum(covered - held, 0) @ w
        columns[f"left_by_{count}"] = 1 - held @ w
    better = place[:, None] > place[None, :]
    # How much of what a candidate covers one better candidate covers too.
    shared = np.minimum(covered[:, None, :], covered[None, :, :]) @ w
    own = np.maximum(covered @ w, 1e-6)
    columns["like_better"] = (shared * better).max(1) / own
    same_title = look.titles[kept][:, None] == look.titles[kept][None, :]
    columns["same_title_better"] = (same_title & better).sum(1).astype(np.float32)
    columns |= _link_columns(kept, likely, covered, w, look.links)
    result = np.empty((n, len(RERANK_FEATURES)), np.float32)
    for at, name in enumerate(RERANK_FEATURES):
        result[:, at] = columns[name]
    return result


def _link_columns(
    kept: NDArray[np.int64], likely: Floats, covered: Floats, weights: Floats, links: Links
) -> dict[str, NDArray[np.floating] | float]:
    """Features of the links into each candidate, out of it, and of shared names, by how likely the other end is."""
    n = len(kept)
    out = {f"{side}_{column}": np.zeros(n, np.float32) for side in _SIDES for column in _COLUMNS}
    if not len(links.source):
        return dict(out)
    size = int(max(kept.max(), links.source.max(), links.target.max())) + 1
    at_kept = np.full(size, -1)
    at_kept[kept] = np.arange(n)
    source, target = at_kept[links.source], at_kept[links.target]
    both_kept = (source >= 0) & (target >= 0)
    about = links.kind < SHARED_KIND
    best_in: Floats = np.zeros(n, np.float32)
    for side, of_side, here_all, there_all in (
        ("in", about, target, source),
        ("out", about, source, target),
        ("with", ~about, source, target),
    ):
        used = np.flatnonzero(of_side & both_kept)
        if not len(used):
            continue
        here, there, name = here_all[used], there_all[used], links.name[used]
        gain = np.maximum(covered[here] - covered[there], 0) @ weights
        both = np.maximum(covered[here], covered[there]) @ weights
        order = np.lexsort((-both, -likely[there], here))
        chosen = order[np.concatenate(([True], here[order][1:] != here[order][:-1]))]
        at, to = here[chosen], there[chosen]
        out[f"{side}_likely"][at] = likely[to]
        out[f"{side}_gain"][at] = gain[chosen]
        out[f"{side}_both"][at] = both[chosen]
        out[f"{side}_rarity"][at] = links.rarity[used][chosen]
        out[f"{side}_homes"][at] = np.log1p(links.homes[used][chosen])
        # Each pair counts once, however often the name is mentioned.
        pairs = np.unique(here.astype(np.int64) * n + there)
        out[f"{side}_sum"] = np.bincount(pairs // n, weights=likely[pairs % n], minlength=n).astype(np.float32)
        # The most likely other passage that the same name leads to.
        ends = here if side == "in" else there
        out[f"{side}_rivals"] = _rivals(ends, name, likely, here, n, own_end=side == "in")
        if side == "in":
            best_in = out["in_likely"]
    # What leads to the passage that leads here: a chain of two links.
    for side, here_all, there_all in (("in", target, source), ("out", source, target)):
        used = np.flatnonzero(about & both_kept)
        if len(used):
            value = likely[there_all[used]] * best_in[there_all[used]]
            np.maximum.at(out[f"{side}_chain"], here_all[used], value)
    return dict(out)


def _rivals(
    ends: NDArray[np.int64],
    names: NDArray[np.int32],
    likely: Floats,
    here: NDArray[np.int64],
    n: int,
    *,
    own_end: bool,
) -> Floats:
    """Gives, for each candidate, the probability of the best other passage that its linked names lead to."""
    result = np.zeros(n, np.float32)
    order = np.lexsort((-likely[ends], names))
    first = order[np.concatenate(([True], names[order][1:] != names[order][:-1]))]
    best_end = dict(zip(names[first].tolist(), ends[first].tolist(), strict=True))
    for candidate, name, end in zip(here.tolist(), names.tolist(), ends.tolist(), strict=True):
        best = best_end[name]
        if best != (end if own_end else candidate) and likely[best] > result[candidate]:
            result[candidate] = likely[best]
    return result
