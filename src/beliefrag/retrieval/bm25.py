"""The embedded BM25 engine: searches an index on disk (mapped, not loaded) or one held in memory."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import tantivy

from beliefrag.errors import CorpusError, RetrievalError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval.engine_errors import explain_engine_errors
from beliefrag.retrieval.fingerprint import CorpusState, passage_digest
from beliefrag.retrieval.ledger import REBUILD, IndexUnusable, read_snapshot
from beliefrag.retrieval.passage_store import (
    ANALYSER,
    CONTENT,
    ID,
    KEY,
    LINKS,
    ORDER,
    SOURCE,
    PassageRow,
    check_passage,
    index_schema,
    open_searcher,
    to_document,
    to_links,
    to_passage,
)
from beliefrag.retrieval.protocol import RETRIEVERS, check_depth
from beliefrag.retrieval.score_sample import SAMPLE_PASSAGES, make_question, measure_score_scale
from beliefrag.retrieval.text import printable_path
from beliefrag.types import Hit, Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.passage_source import PassageSource

__all__ = ["MOST_WORDS", "Bm25Index", "Bm25Options", "passage_terms", "query_terms", "query_words"]

_Scored = tuple[float, tantivy.DocAddress]

_ATTEMPTS = 20
_PAGE = 1000
_ADDRESSES = 20_000
"""Places of passages that are asked for at once. Tantivy goes through all that lie before them, too."""
_SMALL_HEAP = 50_000_000
_DOCUMENT_PASSAGES = 400
"""Passages of a file that are read as one document: about forty thousand words."""
_DOCUMENT_SEARCHED = 5_000
MOST_WORDS = 1024
"""How many distinct words of a query count; the rest of a longer text is ignored, so that no query runs for minutes."""

_SPLIT_WORDS = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).build()
_ENGLISH = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    .filter(tantivy.Filter.remove_long(40))
    .filter(tantivy.Filter.lowercase())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


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
                with explain_engine_errors(
                    IndexUnusable, f"The index {printable_path(index)} cannot be opened", remedy=REBUILD
                ):
                    searcher, schema = open_searcher(before.store)
            except CorpusError:
                if read_snapshot(index) == before:
                    raise
            else:
                # Equal before and after: no commit came in between, so the view and the ledger speak of the same.
                if read_snapshot(index) == before:
                    return cls(searcher, schema, _check_count(index, searcher, before.state))
            time.sleep(0.02 * attempt)
        raise CorpusError(
            f"The index {printable_path(index)} changed faster than it could be opened.",
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
        unique = {passage.id: check_passage(passage) for passage in passages}
        total = 0
        for passage in unique.values():
            with explain_engine_errors(
                CorpusError, f"Passage {passage.id!r} cannot be indexed", remedy="Correct its text."
            ):
                digest = passage_digest(passage)
                total += digest
                writer.add_document(to_document(passage, [passage.source], digest))
        writer.commit()
        index.reload()
        return cls(index.searcher(), index.schema, CorpusState.from_sum(len(unique), total))

    def __len__(self) -> int:
        return self._state.passages

    def __repr__(self) -> str:
        return f"<Bm25Index of {len(self)} passages, {self.fingerprint}>"

    @property
    def fingerprint(self) -> str:
        """Identifies the set of (id, title, text), independent of the order and the steps in which it was built."""
        return self._state.fingerprint

    @cached_property
    def score_scale(self) -> ScoreScale:
        """Where the scores of this corpus lie, measured on the corpus itself."""
        return self.measure_score_scale(make_question(passage) for passage in self.first(SAMPLE_PASSAGES))

    def measure_score_scale(self, questions: Iterable[str]) -> ScoreScale:
        """Measures where the first scores of searches with these questions lie."""
        return measure_score_scale(self.search, questions)

    def search(self, query: str, k: int) -> list[Hit]:
        """Returns the k best passages for the words of the query, best first; equal scores by passage id.

        The query is only words to search for, never syntax. A query without words finds nothing.

        Raises:
            RetrievalError: k is negative, or the index is damaged.
        """
        check_depth(k)
        with explain_engine_errors(RetrievalError, "The search failed", remedy="Build the index again."):
            words = _words_query(self._schema, query)
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
            with explain_engine_errors(
                RetrievalError, "A passage could not be fetched", remedy="Build the index again."
            ):
                term = tantivy.Query.term_query(self._schema, ID, passage_id)
                hits = self._searcher.search(term, 1, count=False).hits
                if not hits:
                    raise RetrievalError(
                        f"The index holds no passage {passage_id!r}.", remedy="Check that it is the same corpus."
                    )
                found.append(self._passage(hits[0][1]))
        return found

    def read_document(self, passage_id: str) -> tuple[list[Passage], bool]:
        """Returns the passages of the file that a passage came from, in the order in which they were read.

        Of a file with very many passages, such as a table of texts, only those with the same title are returned.

        Returns:
            The passages, and whether they are all that the index holds of the file.

        Raises:
            RetrievalError: The index holds no such passage.
        """
        (passage,) = self.get([passage_id])
        with explain_engine_errors(RetrievalError, "A document could not be read", remedy="Build the index again."):
            same_source = tantivy.Query.term_query(self._schema, SOURCE, passage.source)
            found = self._searcher.search(same_source, _DOCUMENT_SEARCHED, count=False).hits
            addresses = sorted((address for _, address in found), key=lambda each: (each.segment_ord, each.doc))
            # What a later update added lies behind the rest; where the places of passages are known, they tell.
            passages = sorted((self._passage(address) for address in addresses), key=_first_number)
        if len(passages) <= _DOCUMENT_PASSAGES:
            return passages, True
        same_title = [each for each in passages if each.title == passage.title]
        if passage not in same_title or len(same_title) > _DOCUMENT_PASSAGES:
            return [passage], False
        return same_title, False

    def first(self, count: int) -> list[Passage]:
        """Returns the first passages by id: a sample that does not depend on how the index was built."""
        count = min(count, len(self))
        if count <= 0:
            return []
        with explain_engine_errors(RetrievalError, "Passages could not be fetched", remedy="Build the index again."):
            everything, rising = tantivy.Query.all_query(), tantivy.Order.Asc
            found = self._searcher.search(everything, count, count=False, order_by_field=ORDER, order=rising).hits
            # Ids that begin alike share the last place; all of them are looked at, not those that happen to lie first.
            reach = tantivy.Query.range_query(
                self._schema, ORDER, tantivy.FieldType.Integer, upper_bound=int(found[-1][0])
            )
            near = self._searcher.search(reach, len(self), count=False).hits
            return sorted((self._passage(address) for _, address in near), key=lambda passage: passage.id)[:count]

    def search_keys(self, query: str, k: int) -> tuple[list[int], list[float]]:
        """Returns the keys and scores of the k best passages without fetching their texts.

        Raises:
            RetrievalError: The index is damaged, or it was made before passages had keys.
        """
        with explain_engine_errors(RetrievalError, "The search failed", remedy="Build the index again."):
            words = _words_query(self._schema, query)
            hits = self._searcher.search(words, k, count=False).hits if words is not None and len(self) else []
            keys = self._searcher.fast_field_values(KEY, [address for _, address in hits]) if hits else []
            return [int(key or 0) for key in keys], [score for score, _ in hits]

    def read_rows(self) -> Iterator[list[PassageRow]]:
        """Gives key, id, title, text, source and links of all passages, some thousand at a time.

        Raises:
            CorpusError: The index is damaged.
        """
        for addresses in self._read_addresses():
            with explain_engine_errors(CorpusError, "Passages could not be read", remedy="Build the index again."):
                keys = self._searcher.fast_field_values(KEY, addresses)
                rows = []
                for key, address in zip(keys, addresses, strict=True):
                    document = self._searcher.doc(address)
                    first = document.get_first
                    title, text = document.get_all(CONTENT)
                    held = first(LINKS)
                    source = first(SOURCE) or ""
                    identifier = str(first(ID))
                    links = to_links(held) if held else ""
                    rows.append(PassageRow(int(key or 0), identifier, title, text, source, links))
            yield rows

    def read_passages(self) -> Iterator[list[tuple[Passage, tuple[str, ...]]]]:
        """Yield all passages with their sources, some thousand at a time.

        Raises:
            CorpusError: The index is damaged.
        """
        for addresses in self._read_addresses():
            with explain_engine_errors(CorpusError, "Passages could not be read", remedy="Build the index again."):
                page = [to_passage(self._searcher.doc(address)) for address in addresses]
            yield page

    def _read_addresses(self) -> Iterator[list[tantivy.DocAddress]]:
        """Gives where all passages lie, a page at a time."""
        for start in range(0, len(self), _ADDRESSES):
            with explain_engine_errors(CorpusError, "Passages could not be read", remedy="Build the index again."):
                found = self._searcher.search(tantivy.Query.all_query(), _ADDRESSES, count=False, offset=start).hits
            for low in range(0, len(found), _PAGE):
                yield [address for _, address in found[low : low + _PAGE]]

    def _passage(self, address: tantivy.DocAddress) -> Passage:
        return to_passage(self._searcher.doc(address))[0]

    def _best(self, words: tantivy.Query, k: int) -> list[_Scored]:
        """Gives the k best. Of equal scores at the cut, the id decides, not where a passage happens to lie."""
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


def _first_number(passage: Passage) -> int:
    """Gives the page, row or line at which a passage begins; 0 where it is not known."""
    found = re.search(r"\d{1,15}", passage.place)
    return int(found[0]) if found else 0


def _check_count(index: Path, searcher: tantivy.Searcher, state: CorpusState) -> CorpusState:
    if searcher.num_docs != state.passages:
        raise IndexUnusable(
            f"The index {printable_path(index)} is damaged: {searcher.num_docs} passages, but its ledger says "
            f"{state.passages}.",
            remedy=REBUILD,
        )
    return state


@dataclass(frozen=True, slots=True)
class Bm25Options:
    """The options of the embedded BM25 engine: none, since its ranking is fixed."""

    identity: ClassVar[str] = Bm25Index.identity


@RETRIEVERS.register(
    "bm25", title="BM25", summary="Searches the words of documents with the embedded engine.", options=Bm25Options
)
def _open_bm25(options: Bm25Options, source: PassageSource) -> Bm25Index:
    return source.open_index()


def passage_terms(text: str) -> list[str]:
    """Gives the terms of a passage, analysed as the embedded engine does, for an engine that cannot do it itself."""
    return _ENGLISH.analyze(text)


def query_words(text: str) -> list[str]:
    """Gives the words of a query, each spelling once, for an engine that analyses them itself."""
    # Half of a surrogate pair cannot cross into tantivy; as a question mark it is no word and does no harm.
    words = dict.fromkeys(_SPLIT_WORDS.analyze(text.encode("utf-8", "replace").decode()))
    return list(islice(words, MOST_WORDS))


def query_terms(text: str) -> list[str]:
    """Gives the terms that a query searches for, analysed exactly as passages are.

    A word that stands in the query twice in the same spelling counts once, as in tantivy's parser.
    """
    return _ENGLISH.analyze(" ".join(query_words(text)))


def _words_query(schema: tantivy.Schema, text: str) -> tantivy.Query | None:
    """Gives the search for the words of a text, or None when it has no word at all.

    A query is data. Questions and model replies hold colons, quotes, brackets and words like AND, which tantivy's query
    parser would obey. Here the text is only cut into words, and every word is one optional term.
    """
    terms = query_terms(text)
    if not terms:
        return None
    should = tantivy.Occur.Should
    return tantivy.Query.boolean_query([(should, tantivy.Query.term_query(schema, CONTENT, term)) for term in terms])
