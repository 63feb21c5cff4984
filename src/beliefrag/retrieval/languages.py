"""Which language a text is in, and the terms that it is searched by in each.

English is what is not recognised as another language, and its terms are those of tantivy's own analyser. A word of
another language is reduced to its stem where there is a stemmer, else it also counts by all runs of four characters in
it. Scripts without spaces are cut into runs of two or three characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from beliefrag.types import Passage

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

ENGLISH = "en"

_STEMMERS = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
_FOLDED = frozenset(("ca", "de", "el", "es", "fr", "it", "nl", "pt", "ro"))
"""Languages whose words are often typed without their accents."""

_COMMON_WORDS = {
    language: frozenset(words)
    for language, *words in map(str.split, Path(__file__).with_name("common_words.txt").read_text("utf-8").splitlines())
}
"""The commonest words of languages in Latin letters: a line of the file has a code and its words."""
_LANGUAGES_OF = {
    word: [language for language, others in _COMMON_WORDS.items() if word in others]
    for words in _COMMON_WORDS.values()
    for word in words
}
_ENGLISH_ALONE = frozenset(("was", "for", "the", "of", "and", "is", "with", "by", "which", "from", "his", "are"))
"""Common words of English that few other languages have."""
_LATIN = "A-Za-z\u00aa-\u024f\u1e00-\u1eff"
_HAN, _KANA = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f", "\u3040-\u30ff\u31f0-\u31ff"
_HANGUL, _THAI, _LAO = "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", "\u0e00-\u0e7f", "\u0e80-\u0eff"
_BURMESE, _KHMER = "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f", "\u1780-\u17ff\u19e0-\u19ff"
_SCRIPTS = {
    "ja": _KANA, "zh": _HAN, "ko": _HANGUL, "th": _THAI, "lo": _LAO, "my": _BURMESE, "km": _KHMER,
    "ru": "\u0400-\u052f", "el": "\u0370-\u03ff\u1f00-\u1fff", "ar": "\u0600-\u06ff\u0750-\u077f",
    "he": "\u0590-\u05ff", "hi": "\u0900-\u097f", "bn": "\u0980-\u09ff", "ta": "\u0b80-\u0bff", "te": "\u0c00-\u0c7f",
    "ka": "\u10a0-\u10ff", "hy": "\u0530-\u058f", "am": "\u1200-\u137f",
}  # fmt: skip
"""The letters of scripts, each with the language that has most speakers of those that are written in it."""
_RELATIVES = {"ru": {"uk": "іїєґ", "bg": "ъ", "ru": "ыэ"}, "ar": {"fa": "پچژگ", "ur": "ٹڈڑے", "ar": "ةىأإ"}}
"""Letters that tell such a language from its relatives."""
_NAMES = {code: name.capitalize() for code, name in _STEMMERS.items()} | {
    "am": "Amharic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "fa": "Persian",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hy": "Armenian", "id": "Indonesian", "ja": "Japanese",
    "ka": "Georgian", "km": "Khmer", "ko": "Korean", "lo": "Lao", "my": "Burmese", "pl": "Polish", "sk": "Slovak",
    "te": "Telugu", "th": "Thai", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip
_KNOWN = frozenset((*_COMMON_WORDS, *_SCRIPTS, *(one for each in _RELATIVES.values() for one in each)))
_NOT_LATIN = re.compile(f"[^\\W\\d_{_LATIN}]")
_LETTERS_ONLY = re.compile(r"[^\W\d_]+")
_IS_LATIN = re.compile(f"[{_LATIN}]")

# In many scripts vowels are marks, which Unicode does not class as letters. A word keeps them.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0dff\u0f71-\u0f84\u135d-\u135f"
)
_DROPPED = re.compile("[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u200b-\u200f\ufeff]")
"""Accents, points of Hebrew and Arabic, which are usually left out, and characters without width."""
_PAIRED, _TRIPLED = f"{_HAN}{_KANA}{_HANGUL}", f"{_THAI}{_LAO}{_BURMESE}{_KHMER}"
_RUN = f"(?P<pairs>[{_PAIRED}]+)|(?P<triples>[{_TRIPLED}]+)|(?P<word>(?:[^\\W_{_PAIRED}{_TRIPLED}]|[{_MARKS}])+)"
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_LONGEST_TERM = 100
_WHOLE_WORD = 4
"""Longer words without a stemmer also count by their runs of this length."""

_FEWEST, _LEAST_SHARE = 5, 0.12
"""How many different common words, and which share of all, make a text in Latin letters one of a language."""
_LONGEST_READ = 4000
_ENGLISH_WITHIN, _ENGLISH_EVERY = 600, 100
"""A text with `the`, `of` or `and` every few words is English, which is seen without splitting it."""


def language_of(passage: Passage) -> str:
    """Return the language of a passage: that of its document where it is known, else of its own words."""
    if passage.metadata:
        named = dict(passage.metadata).get("language", "")
        if named in _KNOWN:
            return named
    return detect_language(f"{passage.title} {passage.text}") or ENGLISH


def detect_language(text: str) -> str | None:
    """Return the code of a text's language, None if too little of it is typical of any that is known."""
    start = text[:_ENGLISH_WITHIN]
    if (start.count(" the ") + start.count(" of ") + start.count(" and ")) * _ENGLISH_EVERY > len(start):
        return ENGLISH
    text = text[:_LONGEST_READ]
    if foreign := _count_letters(text):
        return max(foreign, key=lambda language: foreign[language])
    words = [found.lower() for found in _LETTERS_ONLY.findall(text)]
    typical = _common_words_among(words)
    best = max(typical, key=lambda language: (len(typical[language]), language), default=ENGLISH)
    found = typical.get(best, [])
    # English passages are full of foreign names and titles, but seldom without these words.
    english = sum(word in _ENGLISH_ALONE for word in words)
    enough = len(set(found)) >= _FEWEST - (not english) and len(found) >= _LEAST_SHARE * len(words)
    return best if enough and (best == ENGLISH or len(found) > 2 * english) else None


def _common_words_among(words: Iterable[str]) -> dict[str, list[str]]:
    """Return the common words of each language among some words."""
    found: dict[str, list[str]] = {}
    for word in words:
        for language in _LANGUAGES_OF.get(word, ()):
            found.setdefault(language, []).append(word)
    return found


def _count_letters(text: str) -> dict[str, int]:
    """Count what is typical of each language in other than Latin letters; empty if most are Latin."""
    if text.isascii() or len(_NOT_LATIN.findall(text)) * 2 <= len(_IS_LATIN.findall(text)):
        return {}
    counts = {language: len(re.findall(f"[{letters}]", text)) for language, letters in _SCRIPTS.items()}
    # Chinese characters are Japanese in company with kana.
    counts["ja"] += counts["zh"] if counts["ja"] * 10 > counts["zh"] else 0
    script = max(counts, key=lambda language: counts[language])
    told = {language: sum(map(text.count, letters)) for language, letters in _RELATIVES.get(script, {}).items()}
    return {script: 1, **told} if counts[script] else {}


def query_languages(text: str, known: Mapping[str, int] | None) -> list[str]:
    """Return the languages that a query may be in, the likeliest first: a short text seldom tells.

    Args:
        text: The query.
        known: How many passages there are in each language; None where nobody counted.
    """
    if known is not None and len(known) < 2:
        return list(known)
    common = ENGLISH if known is None else max(known, key=lambda language: (known[language], language))
    counts = _count_letters(text)
    if not counts:
        typical = _common_words_among([found.lower() for found in _LETTERS_ONLY.findall(text)])
        counts = {language: len(set(found)) for language, found in typical.items()}
    possible = {language: count for language, count in counts.items() if known is None or language in known}
    most = max(possible.values(), default=0)
    if not possible or (possible.get(common, -1) == most and common in _COMMON_WORDS):
        likely = [common]
    else:
        likely = sorted(possible, key=lambda language: (-possible[language], language))
        likely = [language for language in likely if 2 * possible[language] >= most or most == 1]
        # A foreign title in a question does not make it foreign.
        if common in _COMMON_WORDS and most <= max(1, 2 * possible.get(common, 0)) and not _count_letters(text):
            likely = [common, *(language for language in likely if language != common)]
    if known is None and likely[0] == ENGLISH:
        return [ENGLISH]
    # What is recognised as no other language counts as English.
    return likely if ENGLISH in likely or (known is not None and ENGLISH not in known) else [*likely, ENGLISH]


def name_language(question: str, passages: Iterable[Passage]) -> str | None:
    """Return the name of the language that a question about these passages is in; None for English."""
    known = Counter([ENGLISH, *map(language_of, passages)])
    return _NAMES.get(query_languages(question, known if len(known) > 1 else None)[0])


def analyse(text: str, language: str) -> list[str]:
    """Return the terms of a text in a language other than English."""
    text = unicodedata.normalize("NFKC", text)
    if language == "tr":
        text = text.replace("I", "ı").replace("İ", "i")
    text = text.lower().replace("ё", "е")
    if not text.isascii():
        text = _FOREIGN_DIGIT.sub(lambda found: str(unicodedata.decimal(found[0])), text)
    terms: list[str] = []
    latin: list[str] = []
    others: list[str] = []
    for found in re.finditer(_RUN, text):
        run = found[0]
        match found.lastgroup:
            case "pairs":
                terms += _runs_of(run, 2)
            case "triples":
                terms += _runs_of(run, 3)
            case _:
                (others if _NOT_LATIN.match(run) else latin).append(run)
    own_script = language not in _COMMON_WORDS
    terms += _reduce(latin, ENGLISH if own_script else language)
    terms += _reduce(others, language if own_script else "")
    return terms


def _reduce(words: list[str], language: str) -> Iterator[str]:
    """Yield the stems of words, or the words and their parts in a language without a stemmer."""
    if not words:
        return
    if language == ENGLISH or language in _STEMMERS:
        stems = _stemmer(language).analyze(" ".join(words))
        yield from map(_fold, stems) if language in _FOLDED else stems
        return
    if language == "vi":
        # Its words are of one or two syllables, which are written apart.
        yield from words
        yield from map(" ".join, pairwise(words))
        return
    for word in words:
        plain = _DROPPED.sub("", word)[:_LONGEST_TERM]
        yield plain
        if len(plain) > _WHOLE_WORD:
            yield from _runs_of(plain, _WHOLE_WORD)


def analyse_english(text: str) -> list[str]:
    """Return the terms of a text in English: the stems of its words."""
    return _stemmer("").analyze(text)


@cache
def _stemmer(language: str) -> TextAnalyzer:
    import tantivy  # noqa: PLC0415 - the workers that read files need only the languages

    if language:
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
        builder = builder.filter(tantivy.Filter.remove_long(_LONGEST_TERM))
    else:
        builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
    return builder.filter(tantivy.Filter.stemmer(_STEMMERS.get(language, "english"))).build()


def _fold(word: str) -> str:
    return (
        word if word.isascii() else unicodedata.normalize("NFC", _DROPPED.sub("", unicodedata.normalize("NFD", word)))
    )


def _runs_of(word: str, length: int) -> list[str]:
    return [word[at : at + length] for at in range(max(1, len(word) - length + 1))]
