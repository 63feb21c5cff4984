"""A retriever of another package: it wraps BM25 and puts passages first whose title stands in the query."""

from dataclasses import dataclass

from beliefrag.retrieval import IGNORE_SCORES, RETRIEVERS, PassageSource, Retriever
from beliefrag.types import Hit


@dataclass(frozen=True, slots=True)
class TitleSearchOptions:
    """The options of the retriever."""

    weight: float = 2.0

    @property
    def identity(self) -> str:
        """What ranks the passages, known before anything is opened."""
        return f"title search, weight {self.weight:g}"


class TitleSearch:
    """Multiplies the score of a passage whose title stands in the query."""

    score_scale = IGNORE_SCORES

    def __init__(self, inner: Retriever, options: TitleSearchOptions) -> None:
        self._inner = inner
        self._weight = options.weight
        self.identity = options.identity

    def search(self, query: str, k: int) -> list[Hit]:
        """Return at most k hits, best first."""
        found = [
            Hit(hit.passage, hit.score * (self._weight if hit.passage.title.lower() in query.lower() else 1.0))
            for hit in self._inner.search(query, 3 * k)
        ]
        return sorted(found, key=lambda hit: -hit.score)[:k]


@RETRIEVERS.register(
    "title_search", title="Title search", summary="BM25, titles in the query first.", options=TitleSearchOptions
)
def open_title_search(options: TitleSearchOptions, source: PassageSource) -> Retriever:
    """Open the retriever over the passages that were given."""
    return TitleSearch(source.open_index(), options)
