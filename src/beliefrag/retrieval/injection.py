"""Make any retriever imperfect on purpose: replace a seeded share of its hits by irrelevant or false passages.

An injected passage takes the place and the score of the hit that it replaces. The same seed and query inject the same
passages, in any order of the searches; a larger share injects what a smaller one does, and more.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Callable, Collection, Sequence

from beliefrag.errors import RetrievalError, SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.bm25 import query_terms
from beliefrag.retrieval.protocol import Retriever
from beliefrag.types import Hit, Passage

_FEW = 200
"""Passages of the pool that are tried first; nearly always enough of them are irrelevant."""
_FUNCTION_WORDS = frozenset(
    query_terms(
        "a about after all also an and any are as at be been before between both but by can could did do does during "
        "each for from had has have he her his how i if in into is it its many may more most much no not of on one or "
        "other our out over own s she so some such than that the their them then there these they this those through "
        "to under until up was we were what when where which while who whom whose why will with would you your"
    )
)


class InjectedRetriever:
    """A retriever for one episode that replaces some hits of another one and records what it injected.

    Args:
        retriever: Searches.
        noise: The share of hits that irrelevant passages replace.
        pool: Where irrelevant passages are drawn from: they share no content word with the query or with `about`.
        about: The question.
        unfit: Whether a passage is never noise, such as one that holds the answer.
        counterfactual: The share of hits that false passages replace, before noise.
        false_version: The passage that contradicts a given one and replaces it, if any.
        false_passages: Further false passages, for places that false versions leave open.
        seed: The seed of all draws.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        noise: float = 0.0,
        pool: Sequence[Passage] = (),
        about: str = "",
        unfit: Callable[[Passage], bool] = lambda _: False,
        counterfactual: float = 0.0,
        false_version: Callable[[Passage], Passage | None] = lambda _: None,
        false_passages: Sequence[Passage] = (),
        seed: str = "0",
    ) -> None:
        check_shares(noise, counterfactual)
        self._retriever = retriever
        self._noise = noise
        self._pool = pool
        self._about = content_words(about)
        self._unfit = unfit
        self._counterfactual = counterfactual
        self._false_version = false_version
        self._false_passages = sorted(false_passages, key=lambda passage: _digest(seed, passage.id))
        self._seed = seed
        self.noise_ids: dict[str, None] = {}
        """Irrelevant passages that were injected so far, in order."""
        self.false_ids: dict[str, None] = {}
        """False ones."""

    @property
    def identity(self) -> str | None:
        """The other retriever and what is injected: a fit on such hits holds only for such hits."""
        inner = self._retriever.identity
        return inner and f"{inner}, with {describe_shares(self._noise, self._counterfactual)}"

    @property
    def score_scale(self) -> ScoreScale | None:
        """The scale of the other retriever: an injected passage has the score of the hit whose place it takes."""
        return self._retriever.score_scale

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the other retriever's hits, best first, some of them replaced."""
        hits = list(self._retriever.search(query, k))
        false = self._choose_false(hits, query)
        noise = self._choose_irrelevant(hits, query, false.keys())
        self.false_ids.update(dict.fromkeys(passage.id for passage in false.values()))
        self.noise_ids.update(dict.fromkeys(passage.id for passage in noise.values()))
        exchanged = false | noise
        return [Hit(exchanged.get(place, hit.passage), hit.score) for place, hit in enumerate(hits)]

    def _choose_false(self, hits: Sequence[Hit], query: str) -> dict[int, Passage]:
        if not self._counterfactual:
            return {}
        versions = {place: version for place, hit in enumerate(hits) if (version := self._false_version(hit.passage))}
        # By the passage, not by the query: a source that lied in one search still lies in the next.
        order = sorted(versions, key=lambda place: _digest(self._seed, hits[place].passage.id))
        draw = self._seeded_draw("counterfactual", query)
        most = _draw_count(self._counterfactual, len(hits), draw)
        false = {place: versions[place] for place in order[:most]}
        used = {passage.id for passage in versions.values()}
        further = [passage for passage in self._false_passages if passage.id not in used][: most - len(false)]
        free = [place for place in draw.sample(range(len(hits)), len(hits)) if place not in false]
        return false | dict(zip(free, further, strict=False))

    def _choose_irrelevant(self, hits: Sequence[Hit], query: str, taken: Collection[int]) -> dict[int, Passage]:
        if not self._noise:
            return {}
        draw = self._seeded_draw("noise", query)
        count = _draw_count(self._noise, len(hits), draw)
        places = [place for place in draw.sample(range(len(hits)), len(hits)) if place not in taken][:count]
        words = self._about | content_words(query)
        known = {hit.passage.id for hit in hits}
        found: list[Passage] = []
        for most in (min(_FEW, len(self._pool)), len(self._pool)):
            drawn = map(self._pool.__getitem__, self._seeded_draw("pool", query).sample(range(len(self._pool)), most))
            # What was found first stays: a smaller share may have been content with it.
            known |= {passage.id for passage in found}
            fitting = (passage for passage in drawn if passage.id not in known and self._is_irrelevant(passage, words))
            found += itertools.islice(fitting, len(places) - len(found))
            if len(found) == len(places):
                return dict(zip(places, found, strict=True))
        raise RetrievalError(
            f"Only {len(found)} of {len(self._pool):,} passages share no word with the search, and noise "
            f"{self._noise:g} needs {len(places)}.",
            remedy="Inject less, or search a larger corpus.",
        )

    def _is_irrelevant(self, passage: Passage, words: frozenset[str]) -> bool:
        return words.isdisjoint(query_terms(f"{passage.title} {passage.text}")) and not self._unfit(passage)

    def _seeded_draw(self, what: str, query: str) -> random.Random:
        return random.Random(_digest(self._seed, what, query))  # noqa: S311


def content_words(text: str) -> frozenset[str]:
    """Return the content words of a text, analysed as a search analyses them."""
    return frozenset(query_terms(text)) - _FUNCTION_WORDS


def check_shares(noise: float, counterfactual: float) -> None:
    """Raise `SettingsError` if a share is not between 0 and 1, or they are more than 1 together."""
    for name, share in (("noise", noise), ("counterfactual", counterfactual)):
        if not 0 <= share <= 1:
            raise SettingsError(f"The {name} {share:g} is not a share of the hits.", remedy="Give 0 to 1, such as 0.4.")
    if noise + counterfactual > 1:
        raise SettingsError(
            f"noise {noise:g} and counterfactual {counterfactual:g} add up to more than 1.",
            remedy="Give shares that add up to 1 at most.",
        )


def describe_shares(noise: float, counterfactual: float) -> str:
    """Describe what is injected."""
    parts = [(noise, "irrelevant"), (counterfactual, "counterfactual")]
    return " and ".join(f"{100 * share:g} % {kind} passages" for share, kind in parts if share) or "nothing injected"


def _draw_count(share: float, hits: int, draw: random.Random) -> int:
    """Return the number of hits of a share; between two whole numbers, the draw decides."""
    # 0.29 of 100 is 28.999... to a computer.
    exact = round(share * hits, 9)
    chance = draw.random()
    return math.floor(exact) + (chance < exact - math.floor(exact))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
