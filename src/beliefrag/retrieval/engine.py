"""The embedded BM25 engine: searches an index on disk (mapped, not loaded) or one held in memory."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import tantivy

from beliefrag.errors import CorpusError, RetrievalError
from beliefrag.retrieval.fingerprint import CorpusState, passage_digest
from beliefrag.retrieval.ledger import REBUILD, IndexUnusable, read_snapshot
from beliefrag.retrieval.names import printable
from beliefrag.retrieval.query import bag_of_words
from beliefrag.retrieval.schema import ANALYSER, ID, ORDER, checked, index_schema, to_document, to_passage
from beliefrag.retrieval.store import engine_errors, open_searcher
from beliefrag.types import Hit, Passage

__all__ = ["Bm25Index"]

_Scored = tuple[float, tantivy.DocAddress]

_ATTEMPTS = 20
_SMALL_HEAP = 50_000_000


class Bm25Index:
    """Passages that can be searched by BM25 (k1 1.2, b 0.75) over their English-stemmed title and text.

    An opened index is a view of the moment: commits made later do not change it, so the searches of a run agree with
    each other. Open it again to see them. All methods may be called from several threads at once.
    """

    identity = f"bm25 k1=1.2 b=0.75 {ANALYSER}"
    """Names the ranking, for artifacts that are only valid with it."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema, state: CorpusState) -> None:
        self._searcher = searcher
        self._schema = schema
        self._state = state

    @classmethod
    def open(cls, path: str | Path) -> Bm25Index:
        """Opens an index that `index_paths` or `IndexWriter` has made; reading needs no right to write.

        Raises:
            CorpusError: There is no index there, it is of another version, or it is damaged.
        """
        index = Path(path)
        for attempt in range(_ATTEMPTS):
            before = read_snapshot(index)
            try:
                with engine_errors(
                    IndexUnusable,
                    f"The index {printable(index)} cannot be opened",
                    remedy=REBUILD,
                ):
                    searcher, schema = open_searcher(before.store)
            except CorpusError:
                if read_snapshot(index) == before:
                    raise
            else:
                # Equal before and after: no commit came in between, so the view and the ledger speak of the same.
                if read_snapshot(index) == before:
                    return cls(searcher, schema, _agreed(index, searcher, before.state))
            time.sleep(0.02 * attempt)
        raise CorpusError(
            f"The index {printable(index)} changed faster than it could be opened.",
            remedy="Try again when the process that writes it has finished.",
        )

    @classmethod
    def in_memory(cls, passages: Iterable[Passage]) -> Bm25Index:
        """Builds an index that lives and dies with this object: for small corpora and tests.

        Of two passages with one id the later counts.

        Raises:
            CorpusError: A passage cannot be indexed.
        """
        index = tantivy.Index(index_schema())
        writer = index.writer(_SMALL_HEAP, 1)
        unique = {passage.id: checked(passage) for passage in passages}
        total = 0
        for passage in unique.values():
            with engine_errors(CorpusError, f"Passage {passage.id!r} cannot be indexed", remedy="Correct its text."):
                total += passage_digest(passage)
                writer.add_document(to_document(passage, [passage.source]))
        writer.commit()
        index.reload()
        return cls(index.searcher(), index.schema, CorpusState.of(len(unique), total))

    def __len__(self) -> int:
        return self._state.passages

    def __repr__(self) -> str:
        return f"<Bm25Index of {len(self)} passages, {self.fingerprint}>"

    @property
    def fingerprint(self) -> str:
        """Says which (id, title, text) set this is, whatever the order and steps in which it was built."""
        return self._state.fingerprint

    def search(self, query: str, k: int) -> list[Hit]:
        """Returns the k best passages for the words of the query, best first; equal scores by passage id.

        Whatever stands in the query is words to look for, never syntax. A query without words finds nothing.

        Raises:
            RetrievalError: k is negative, or the index is damaged.
        """
        if k < 0:
            raise RetrievalError(f"A search cannot return {k} passages.", remedy="Ask for 0 or more.")
        with engine_errors(RetrievalError, "The search failed", remedy="Build the index again."):
            words = bag_of_words(self._schema, query)
            if words is None or k == 0 or not len(self):
                return []
            hits = [Hit(self._passage(address), score) for score, address in self._best(words, k)]
        if any(one.score == other.score for one, other in pairwise(hits)):
            hits.sort(key=lambda hit: (-hit.score, hit.passage.id))
        return hits

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Returns the passages with these ids, in the order given.

        Raises:
            RetrievalError: One of them is not in the index.
        """
        found = []
        for passage_id in ids:
            with engine_errors(RetrievalError, "A passage could not be fetched", remedy="Build the index again."):
                term = tantivy.Query.term_query(self._schema, ID, passage_id)
                hits = self._searcher.search(term, 1, count=False).hits
                if not hits:
                    raise RetrievalError(
                        f"The index holds no passage {passage_id!r}.", remedy="Check that it is the same corpus."
                    )
                found.append(self._passage(hits[0][1]))
        return found

    def first(self, count: int) -> list[Passage]:
        """Returns the first passages by id: a sample that does not depend on how the index was built."""
        count = min(count, len(self))
        if count <= 0:
            return []
        with engine_errors(RetrievalError, "Passages could not be fetched", remedy="Build the index again."):
            everything, rising = tantivy.Query.all_query(), tantivy.Order.Asc
            found = self._searcher.search(everything, count, count=False, order_by_field=ORDER, order=rising).hits
            # Ids that begin alike share the last place; all of them are looked at, not those that happen to lie first.
            reach = tantivy.Query.range_query(
                self._schema, ORDER, tantivy.FieldType.Integer, upper_bound=int(found[-1][0])
            )
            near = self._searcher.search(reach, len(self), count=False).hits
            return sorted((self._passage(address) for _, address in near), key=lambda passage: passage.id)[:count]

    def _passage(self, address: tantivy.DocAddress) -> Passage:
        return to_passage(self._searcher.doc(address))[0]

    def _best(self, words: tantivy.Query, k: int) -> list[_Scored]:
        """The k best, with ties across the cut settled by id rather than by where a passage happens to lie."""
        most = len(self)
        limit = min(k, most - 1) + 1
        hits: list[_Scored] = self._searcher.search(words, limit, count=False).hits
        if len(hits) <= k or hits[k][0] < hits[k - 1][0]:
            return hits[:k]
        cut = hits[k - 1][0]
        while hits[-1][0] == cut and len(hits) == limit < most:
            limit = min(16 * limit, most)
            hits = self._searcher.search(words, limit, count=False).hits
        above = [hit for hit in hits if hit[0] > cut]
        tied = [hit for hit in hits if hit[0] == cut]
        return above + self._first_by_id(tied, k - len(above))

    def _first_by_id(self, tied: list[_Scored], count: int) -> list[_Scored]:
        orders = self._searcher.fast_field_values(ORDER, [address for _, address in tied])
        last = sorted(order for order in orders if order is not None)[count - 1]
        near = [hit for hit, order in zip(tied, orders, strict=True) if order is not None and order <= last]
        return sorted(near, key=lambda hit: self._passage(hit[1]).id)[:count]


def _agreed(index: Path, searcher: tantivy.Searcher, state: CorpusState) -> CorpusState:
    if searcher.num_docs != state.passages:
        raise IndexUnusable(
            f"The index {printable(index)} is damaged: {searcher.num_docs} passages, but its ledger says "
            f"{state.passages}.",
            remedy=REBUILD,
        )
    return state
