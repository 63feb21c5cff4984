"""Questions made from the links of handbooks, to fit a ranker for texts that are no encyclopedia.

Nobody wrote questions for these documents, so they are made: words of a sentence that mentions a name, without the
name, and words of a sentence of the passage that has the name. Both passages are needed. Questions for one passage are
words of one of its sentences. Such questions are cruder than what people ask, but they show how passages of a handbook
stand to each other: which of several pieces of an entry is meant, and how far a mention is to be trusted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from beliefrag.retrieval.chunk import cut_document, split_sentences
from beliefrag.retrieval.document import Unreadable
from beliefrag.retrieval.files import find_files
from beliefrag.retrieval.linked.graph import NameGraph
from beliefrag.retrieval.linked.tokens import split_passages
from beliefrag.retrieval.readers import reader_for
from beliefrag.types import Passage

__all__ = ["make_questions", "read_handbooks"]

_ASKS = ("What", "Which", "How", "When", "Where", "By default, what", "What is the", "Which setting", "How many")
_COMMON = frozenset(
    (
        "the", "a", "an", "of", "to", "in", "is", "are", "be", "and", "or", "for", "on", "with", "that", "this", "it",
        "as", "by", "if", "not", "from", "at", "can", "will", "may", "when", "which", "you",
    )
)  # fmt: skip
_MOST_HOMES = 6
_RAREST_NEEDED = 7.0


def read_handbooks(folder: Path) -> list[Passage]:
    """The passages of all documents below a folder."""
    passages = []
    for path, file in find_files([folder]).files.items():
        reader = reader_for(path)
        if reader is None:
            continue
        try:
            passages += [each for document in reader(file, lambda _: None) for each in cut_document(document)]
        except Unreadable:
            continue
    return list({passage.id: passage for passage in passages}.values())


def make_questions(
    passages: Sequence[Passage], graph: NameGraph, *, two_hop: int, single: int
) -> Iterator[tuple[str, frozenset[str]]]:
    """Gives questions with the ids of the passages that they need; the same ones every time."""
    draw = random.Random(14)
    by_id = {passage.id: passage for passage in passages}
    made = 0
    for _ in range(50 * two_hop):
        question = _ask_two(draw, draw.randrange(len(graph)), graph, by_id)
        if question is not None:
            yield question
            made += 1
        if made == two_hop:
            break
    for _ in range(single):
        passage = draw.choice(passages)
        words = _draw_words(draw, draw.choice(list(split_sentences(passage.text))), set(), 4, 9)
        if len(words) >= 3:
            yield _write(draw, passage, words, []), frozenset([passage.id])


def _ask_two(
    draw: random.Random, number: int, graph: NameGraph, by_id: dict[str, Passage]
) -> tuple[str, frozenset[str]] | None:
    here = graph.named.of_passage(number)
    if here.stop == here.start:
        return None
    mention = draw.randrange(here.start, here.stop)
    if graph.named.rarity[mention] < _RAREST_NEEDED:
        return None
    name = int(graph.named.name[mention])
    homes = graph.home_passage[graph.homes(name)].tolist()
    if len(homes) > _MOST_HOMES:
        return None
    first, second = by_id[graph.passage_id(number)], by_id[graph.passage_id(draw.choice(homes))]
    if first.title == second.title:
        return None
    tokens = split_passages([(first.title, first.text)])
    begin, end = tokens.starts[graph.named.start[mention]], tokens.ends[graph.named.end[mention] - 1]
    hidden = set(_words(tokens.text[begin:end]))
    text, place = tokens.text[len(first.title) + 1 :], begin - len(first.title) - 1
    sentences = list(split_sentences(text[: len(first.text)]))
    at, holder = 0, ""
    for sentence in sentences:
        at = text.find(sentence, at)
        if at <= place < at + len(sentence):
            holder = sentence
        at += len(sentence)
    one = _draw_words(draw, holder, hidden, 4, 9)
    other = _draw_words(draw, draw.choice(list(split_sentences(second.text))), hidden, 1, 4)
    if len(one) < 3 or not other:
        return None
    return _write(draw, first, one, other), frozenset([first.id, second.id])


def _words(text: str) -> list[str]:
    return [word.strip(".,;:()[]\"'`“”") for word in text.split()]


def _draw_words(draw: random.Random, sentence: str, hidden: set[str], fewest: int, most: int) -> list[str]:
    """Some words of a sentence in their order, without those that are hidden and those that say nothing."""
    parts = {part.lower() for word in hidden for part in (word, *word.replace("=", "").split("-"))}
    words = [
        word
        for word in _words(sentence)
        if word and word.lower() not in _COMMON and not any(part in word.lower() for part in parts if part)
    ]
    count = min(len(words), draw.randint(fewest, most))
    return [words[place] for place in sorted(draw.sample(range(len(words)), count))]


def _write(draw: random.Random, passage: Passage, one: Sequence[str], other: Sequence[str]) -> str:
    """A question that often names the document, or the heading, of its first passage."""
    parts = passage.title.split(" > ")
    about = [draw.choice([parts[0], parts[-1]])] if draw.random() < 0.5 else []
    pieces = [*about, " ".join(one), " ".join(other)]
    if draw.random() < 0.5:
        pieces.reverse()
    return f"{draw.choice(_ASKS)} {' '.join(piece for piece in pieces if piece)}?"
