"""The embedded BM25 engine: searches an index on disk (mapped, not loaded) or one held in memory."""

from __future__ import annotations

import copy
import random
import re
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import tantivy

from beliefrag.errors import BeliefRAGError, CorpusError, RetrievalError
from beliefrag.policy import ScoreScale
from beliefrag.retrieval import store
from beliefrag.retrieval.documents import links_of, printable_path, split_sentences
from beliefrag.retrieval.filters import FILE, LANGUAGE, PATH, Both, Either, Filter, Not, matching_values
from beliefrag.retrieval.languages import ENGLISH, analyse, language_of, query_languages
from beliefrag.retrieval.protocol import RETRIEVERS, check_depth
from beliefrag.retrieval.spelling import QUESTION_WORD, possible_words
from beliefrag.retrieval.store import ANALYSER, CONTENT, ID, CorpusState, PassageRow, explain_engine_errors
from beliefrag.types import Hit, Passage

if TYPE_CHECKING:
    from beliefrag.retrieval.protocol import PassageSource


MOST_WORDS = 1024
"""How many distinct words of a query count so that no query runs for minutes."""
SAMPLE_PASSAGES = 100
"""How many passages the score scale of a corpus is measured with."""

_ATTEMPTS = 20
_PAGE = 1000
_ADDRESSES = 20_000
"""How many places of passages are asked for at once. Tantivy goes through all that lie before them, too."""
_SMALL_HEAP = 50_000_000
_DOCUMENT_PASSAGES = 400
"""Passages of a file that are read as one document: about forty thousand words."""
_DOCUMENT_SEARCHED = 5_000
_QUESTION_WORDS = 10
_SENTENCE_WORDS = 5
"""Words that a sentence must have to be made a question of."""
_QUESTION_HITS = 5
_SPELLED = 30
"""Passages in which the spelling of a word is looked up."""

_SPLIT_WORDS = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).build()
_SHORT = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.remove_long(40))
_ENGLISH = _SHORT.filter(tantivy.Filter.lowercase()).filter(tantivy.Filter.stemmer("english")).build()

_Scored = tuple[float, tantivy.DocAddress]


@runtime_checkable
class MeasuresScores(Protocol):
    """A retriever whose scores depend on corpus and query."""

    def measure_score_scale(self, questions: Iterable[str]) -> ScoreScale:
        """Measure where the first scores of searches with these questions lie."""
        ...


def measure_score_scale(search: Callable[[str, int], Sequence[Hit]], questions: Iterable[str]) -> ScoreScale:
    """Measure where the first scores of searches with these questions lie, which depends on the corpus."""
    scores = [hit.score for question in questions for hit in search(question, _QUESTION_HITS)]
    if len(scores) < 2:
        return ScoreScale(location=1.0, scale=1.0)
    return ScoreScale(statistics.fmean(scores), max(statistics.pstdev(scores), 0.1))


def make_question(passage: Passage) -> str:
    """Return ten words of a sentence of the passage, a stand-in for a question (docs/results/score_scale.json)."""
    draw = random.Random(passage.id)  # noqa: S311
    sentences = [sentence.split() for sentence in split_sentences(passage.text)]
    words = draw.choice([each for each in sentences if len(each) >= _SENTENCE_WORDS] or [passage.text.split()])
    kept = sorted(draw.sample(range(len(words)), min(_QUESTION_WORDS, len(words))))
    return " ".join(words[place] for place in kept)


class Bm25Index:
    """A snapshot of passages that threads can search by BM25 (k1 1.2, b 0.75) over their stemmed title and text."""

    identity = f"bm25 k1=1.2 b=0.75 {ANALYSER}"
    """Names the ranking, for artifacts that are only valid with it."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema, state: CorpusState) -> None:
        self._searcher = searcher
        self._schema = schema
        self._state = state
        self._limit: tantivy.Query | None = None
        """The passages that searches are limited to."""

    def where(self, wanted: Filter) -> Bm25Index:
        """Return the same passages, of which searches find those that a filter describes."""
        with _explained("The filter failed"):
            limit = self._filter_query(wanted)
        view = copy.copy(self)
        view._limit = limit if self._limit is None else _all_of(self._limit, limit)
        return view

    def limited_keys(self) -> list[int] | None:
        """Return the keys of the passages that searches are limited to; None without a limit."""
        if self._limit is None:
            return None
        with _explained("The filter failed"):
            hits = self._searcher.search(self._limit, max(1, len(self)), count=False).hits
            keys = self._searcher.fast_field_values(store.KEY, [address for _, address in hits]) if hits else []
        return [int(key or 0) for key in keys]

    @classmethod
    def open(cls, path: str | Path) -> Bm25Index:
        """Open an index on disk, which needs no right to write."""
        index = Path(path)
        for attempt in range(_ATTEMPTS):
            before = store.read_snapshot(index)
            try:
                with explain_engine_errors(
                    store.IndexUnusable, f"The index {printable_path(index)} cannot be opened", remedy=store.REBUILD
                ):
                    searcher, schema = store.open_searcher(index)
            except CorpusError:
                if store.read_snapshot(index) == before:
                    raise
            else:
                # Equal before and after: no commit came in between, so the view and the manifest agree.
                if store.read_snapshot(index) == before:
                    store.check_count(index, searcher, before.state)
                    return cls(searcher, schema, before.state)
            time.sleep(0.02 * attempt)
        raise CorpusError(
            f"The index {printable_path(index)} changed faster than it could be opened.",
            remedy="Try again when the process that writes it has finished.",
        )

    @classmethod
    def in_memory(cls, passages: Iterable[Passage]) -> Bm25Index:
        """Build an index in memory; of two passages with the same id the later one counts."""
        index = tantivy.Index(store.index_schema())
        writer = index.writer(_SMALL_HEAP, 1)
        unique = {passage.id: store.check_passage(passage) for passage in passages}
        total = 0
        for passage in unique.values():
            with explain_engine_errors(
                CorpusError, f"Passage {passage.id!r} cannot be indexed", remedy="Correct its text."
            ):
                digest = store.passage_digest(passage)
                total += digest
                writer.add_document(store.to_document(passage, [passage.source], digest))
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
        """The range of scores in this corpus, measured on the corpus itself."""
        return self.measure_score_scale(make_question(passage) for passage in self.first(SAMPLE_PASSAGES))

    def measure_score_scale(self, questions: Iterable[str]) -> ScoreScale:
        """Measure where the first scores of searches with these questions lie."""
        return measure_score_scale(self.search, questions)

    def search(self, query: str, k: int) -> list[Hit]:
        """Return the k best passages for the words of the query, best first; equal scores by passage id."""
        check_depth(k)
        with _explained("The search failed"):
            words = self._words_query(query)
            if words is None or k == 0 or not len(self):
                return []
            hits = [Hit(self._passage(address), score) for score, address in self._best(words, k)]
        if any(one.score == other.score for one, other in pairwise(hits)):
            hits.sort(key=lambda hit: (-hit.score, hit.passage.id))
        return hits

    def correct_words(self, text: str) -> str:
        """Return an English text in which each word that no passage has is replaced by the word that it is a slip for.

        A passage must have that word as it is spelled; of several words the one in most passages is taken.
        """
        if query_languages(text, self.languages)[:1] != [ENGLISH]:
            return text
        with _explained("The search failed"):
            return QUESTION_WORD.sub(lambda found: self._correct_word(found[0]), text)

    def _correct_word(self, typed: str) -> str:
        if any(self._searcher.doc_freq(CONTENT, term) for term in _ENGLISH.analyze(typed)):
            return typed
        possible = possible_words(typed)
        terms = dict(zip(possible, _ENGLISH.analyze(" ".join(possible)), strict=True))
        counts = {word: self._searcher.doc_freq(CONTENT, term) for word, term in terms.items()}
        likely = sorted(filter(counts.get, possible), key=lambda word: -counts[word])
        return next((word for word in likely if self._has_word(word, terms[word])), typed)

    def _has_word(self, word: str, term: str) -> bool:
        """Return whether one of the first passages with a term has this very word."""
        same_stem = tantivy.Query.term_query(self._schema, CONTENT, term)
        query = self._limited(tantivy.Query.const_score_query(same_stem, 1.0))
        found = [self._passage(address) for _, address in self._searcher.search(query, _SPELLED, count=False).hits]
        return any(word.lower() in _SPLIT_WORDS.analyze(f"{each.title} {each.text}".lower()) for each in found)

    def get(self, ids: Iterable[str]) -> list[Passage]:
        """Return the passages with these ids, in the order given; an unknown one is a `RetrievalError`."""
        found = []
        for passage_id in ids:
            with _explained("A passage could not be fetched"):
                term = tantivy.Query.term_query(self._schema, ID, passage_id)
                hits = self._searcher.search(term, 1, count=False).hits
                if not hits:
                    raise RetrievalError(
                        f"The index holds no passage {passage_id!r}.", remedy="Check that it is the same corpus."
                    )
                found.append(self._passage(hits[0][1]))
        return found

    def read_document(self, passage_id: str) -> tuple[list[Passage], bool]:
        """Return the passages of the file that a passage came from, in their order, and whether they are all.

        Of a file with very many passages, such as a table of texts, only those with the same title are returned.
        """
        (passage,) = self.get([passage_id])
        with _explained("A document could not be read"):
            same_source = tantivy.Query.term_query(self._schema, store.SOURCE, passage.source)
            found = self._searcher.search(same_source, _DOCUMENT_SEARCHED, count=False).hits
            addresses = sorted((address for _, address in found), key=lambda each: (each.segment_ord, each.doc))
            # What a later update added lies behind the rest, so the places decide where they are known.
            passages = sorted((self._passage(address) for address in addresses), key=_first_number)
        if len(passages) <= _DOCUMENT_PASSAGES:
            return passages, True
        same_title = [each for each in passages if each.title == passage.title]
        if passage not in same_title or len(same_title) > _DOCUMENT_PASSAGES:
            return [passage], False
        return same_title, False

    def first(self, count: int) -> list[Passage]:
        """Return the first passages by id: a sample that does not depend on how the index was built."""
        count = min(count, len(self))
        if count <= 0:
            return []
        with _explained("Passages could not be fetched"):
            everything, rising = tantivy.Query.all_query(), tantivy.Order.Asc
            found = self._searcher.search(everything, count, count=False, order_by_field=store.ORDER, order=rising).hits
            # Ids that begin alike share the last place: all of them are looked at.
            reach = tantivy.Query.range_query(
                self._schema, store.ORDER, tantivy.FieldType.Integer, upper_bound=int(found[-1][0])
            )
            near = self._searcher.search(reach, len(self), count=False).hits
            return sorted((self._passage(address) for _, address in near), key=lambda passage: passage.id)[:count]

    def search_keys(self, query: str, k: int) -> tuple[list[int], list[float]]:
        """Return the keys and scores of the k best passages without fetching their texts."""
        with _explained("The search failed"):
            words = self._words_query(query)
            hits = self._searcher.search(words, k, count=False).hits if words is not None and len(self) else []
            keys = self._searcher.fast_field_values(store.KEY, [address for _, address in hits]) if hits else []
            return [int(key or 0) for key in keys], [score for score, _ in hits]

    def read_rows(self) -> Iterator[list[PassageRow]]:
        """Yield all passages as the graph of names reads them, some thousand at a time."""
        for addresses in self._read_addresses():
            with _explained("Passages could not be read", CorpusError):
                keys = self._searcher.fast_field_values(store.KEY, addresses)
                read = [store.to_read_passage(self._searcher.doc(address))[0] for address in addresses]
                rows = [
                    PassageRow(int(key or 0), each.id, each.title, each.text, each.source, links_of(each))
                    for key, each in zip(keys, read, strict=True)
                ]
            yield rows

    def read_passages(self) -> Iterator[list[tuple[Passage, tuple[str, ...]]]]:
        """Yield all passages with their sources, some thousand at a time."""
        for addresses in self._read_addresses():
            with _explained("Passages could not be read", CorpusError):
                passages = [store.to_read_passage(self._searcher.doc(address)) for address in addresses]
            yield passages

    def _read_addresses(self) -> Iterator[list[tantivy.DocAddress]]:
        """Yield the addresses of all passages, a page at a time."""
        for start in range(0, len(self), _ADDRESSES):
            with _explained("Passages could not be read", CorpusError):
                found = self._searcher.search(tantivy.Query.all_query(), _ADDRESSES, count=False, offset=start).hits
            for low in range(0, len(found), _PAGE):
                yield [address for _, address in found[low : low + _PAGE]]

    @cached_property
    def languages(self) -> dict[str, int]:
        """How many passages there are in each language."""
        others = dict(self._searcher.terms_with_prefix(store.LANGUAGE, ""))
        english = len(self) - sum(others.values())
        return others | ({ENGLISH: english} if english > 0 else {})

    def _words_query(self, text: str) -> tantivy.Query | None:
        """Return the search for the words of a text, each an optional term, or None when it has no word.

        A query is data: quotes, brackets and words like AND never reach tantivy's query parser.
        """
        # English terms are kept apart so that no other passage changes what is rare among them.
        languages, should = query_languages(text, self.languages), tantivy.Occur.Should
        english = _english_terms(text, languages)
        others = _other_terms(text, languages) if languages != [ENGLISH] else []
        if not english and not others:
            return None
        terms = [(CONTENT, term) for term in english] + [(store.WORDS, term) for term in others]
        return self._limited(
            tantivy.Query.boolean_query([(should, tantivy.Query.term_query(self._schema, *term)) for term in terms])
        )

    def _limited(self, words: tantivy.Query) -> tantivy.Query:
        return words if self._limit is None else _all_of(words, tantivy.Query.const_score_query(self._limit, 0.0))

    def _filter_query(self, wanted: Filter) -> tantivy.Query:
        """Return what a filter describes: for a comparison, the terms of its name that satisfy it."""
        match wanted:
            case Both():
                return _all_of(*map(self._filter_query, wanted.parts))
            case Either():
                return tantivy.Query.boolean_query(
                    [(tantivy.Occur.Should, self._filter_query(part)) for part in wanted.parts]
                )
            case Not():
                return _without(self._filter_query(wanted.part))
        if wanted.name == LANGUAGE and matching_values(wanted, [ENGLISH]):
            # English is what has no other language.
            others = [each for each in self.languages if each != ENGLISH and not wanted.accepts(each)]
            rest = tantivy.Query.term_set_query(self._schema, store.LANGUAGE, others) if others else None
            return tantivy.Query.all_query() if rest is None else _without(rest)
        field, prefix = {PATH: (store.SOURCE, ""), FILE: (store.SOURCE, ""), LANGUAGE: (store.LANGUAGE, "")}.get(
            wanted.name, (store.METADATA, f"{wanted.name}=")
        )
        held = (term.removeprefix(prefix) for term, _ in self._searcher.terms_with_prefix(field, prefix))
        terms = [f"{prefix}{value}" for value in matching_values(wanted, held)]
        return tantivy.Query.term_set_query(self._schema, field, terms) if terms else tantivy.Query.empty_query()

    def _passage(self, address: tantivy.DocAddress) -> Passage:
        return store.to_passage(self._searcher.doc(address))[0]

    def _best(self, words: tantivy.Query, k: int) -> list[_Scored]:
        """Return the k best. Of equal scores at the cut, the id decides, not the order in the index."""
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
        orders = self._searcher.fast_field_values(store.ORDER, [address for _, address in tied])
        last = sorted(order for order in orders if order is not None)[count - 1]
        near = [hit for hit, order in zip(tied, orders, strict=True) if order is not None and order <= last]
        return sorted(near, key=lambda hit: self._passage(hit[1]).id)[:count]


def _first_number(passage: Passage) -> int:
    """Return the page, row or line at which a passage begins; 0 where it is not known."""
    found = re.search(r"\d{1,15}", passage.place)
    return int(found[0]) if found else 0


def _all_of(*queries: tantivy.Query) -> tantivy.Query:
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, query) for query in queries])


def _without(query: tantivy.Query) -> tantivy.Query:
    return tantivy.Query.boolean_query(
        [(tantivy.Occur.Must, tantivy.Query.all_query()), (tantivy.Occur.MustNot, query)]
    )


def _explained(message: str, kind: type[BeliefRAGError] = RetrievalError) -> AbstractContextManager[None]:
    return explain_engine_errors(kind, message, remedy="Build the index again.")


@dataclass(frozen=True, slots=True)
class Bm25Options:
    """The options of the embedded BM25 engine: none."""

    identity: ClassVar[str] = Bm25Index.identity


@RETRIEVERS.register(
    "bm25", title="BM25", summary="Searches the words of documents with the embedded engine.", options=Bm25Options
)
def _open_bm25(options: Bm25Options, source: PassageSource) -> Bm25Index:
    return source.open_index()


def passage_terms(passage: Passage) -> list[str]:
    """Return the terms of a passage as the embedded engine analyses it, for engines that cannot."""
    language, text = language_of(passage), f"{passage.title}\n{passage.text}"
    return _ENGLISH.analyze(text) if language == ENGLISH else analyse(text, language)


def query_words(text: str) -> list[str]:
    """Return the words of a query, each spelling once, for an engine that analyses them itself."""
    # Half of a surrogate pair cannot cross into tantivy; a question mark in its place is harmless.
    words = dict.fromkeys(_SPLIT_WORDS.analyze(text.encode("utf-8", "replace").decode()))
    return list(islice(words, MOST_WORDS))


def query_terms(text: str) -> list[str]:
    """Return the terms that a query searches for, analysed as passages in its language are.

    A repeated word counts once, as in tantivy's parser. For an engine that has the terms of all languages in one field.
    """
    languages = query_languages(text, None)
    english = _english_terms(text, languages)
    return english + [term for term in _other_terms(text, languages) if term not in english]


def _english_terms(text: str, languages: Collection[str]) -> list[str]:
    return _ENGLISH.analyze(" ".join(query_words(text))) if ENGLISH in languages else []


def _other_terms(text: str, languages: Collection[str]) -> list[str]:
    # Half of a surrogate pair cannot cross into tantivy.
    text = text.encode("utf-8", "replace").decode()
    terms = (term for language in languages if language != ENGLISH for term in analyse(text, language))
    return list(islice(dict.fromkeys(terms), MOST_WORDS))
