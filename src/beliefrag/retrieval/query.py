"""Turns any text into a search for its words.

A query is data. Questions and model replies hold colons, quotes, brackets and words like AND; tantivy's query parser
would obey them. Here the text is only ever cut into words, and every word is one optional term.
"""

from __future__ import annotations

from itertools import islice

import tantivy

from beliefrag.retrieval.schema import CONTENT

__all__ = ["MOST_WORDS", "bag_of_words", "query_terms"]

MOST_WORDS = 1024
"""How many distinct words of a query count; the rest of a longer text is ignored, so that no query runs for minutes."""

_WORDS = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).build()
_ENGLISH = (
    tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    .filter(tantivy.Filter.remove_long(40))
    .filter(tantivy.Filter.lowercase())
    .filter(tantivy.Filter.stemmer("english"))
    .build()
)


def query_terms(text: str) -> list[str]:
    """Gives the terms that a query searches for, analysed exactly as passages are.

    A word that stands in the query twice in the same spelling counts once, as in tantivy's parser.
    """
    # Half of a surrogate pair cannot cross into tantivy; as a question mark it is no word and does no harm.
    words = dict.fromkeys(_WORDS.analyze(text.encode("utf-8", "replace").decode()))
    return _ENGLISH.analyze(" ".join(islice(words, MOST_WORDS)))


def bag_of_words(schema: tantivy.Schema, text: str) -> tantivy.Query | None:
    """Gives the search for the words of a text, or None when it has no word at all."""
    terms = query_terms(text)
    if not terms:
        return None
    should = tantivy.Occur.Should
    return tantivy.Query.boolean_query([(should, tantivy.Query.term_query(schema, CONTENT, term)) for term in terms])
