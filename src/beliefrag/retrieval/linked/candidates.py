"""Passages that may be needed: what the search found, what the question names, and what those lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from beliefrag.retrieval.linked.graph import Mentions, NameGraph, keep_longest
from beliefrag.retrieval.linked.names import SURENESS
from beliefrag.retrieval.linked.words import Flags, Floats, Integers, Tokens, rarity_needed

SHARED_KIND = 5
"""The kind of a link between two passages that mention the same name; smaller kinds lead to a passage about it."""

SEARCHED = 20
"""How many of the best hits are candidates."""
NEAR = 10
"""How many of the nearest passages are, where there are vectors."""
_SEEDS = 8
"""How many of the best hits are followed along their links."""
_FIRST_SEEDS, _HOMES, _FEWER_HOMES = 4, 6, 3
"""How many passages of a name are taken, best hits first: from the first seeds, and from the later ones."""
_MOST_NAMED = 6
"""How many passages that the question names are followed too."""
_SHARED_SEEDS, _SHARED, _MOST_SHARED = 5, 4, 30
"""Names that no passage is about are followed from so many of the best hits, to so many passages each and in all."""
_MOST_SHARING = 12
"""A name that more passages mention is not followed like that."""
_BACKLINK_SEEDS, _BACKLINKS = 6, 4
"""To how many seeds the passages that mention their names are added, and how many to each."""
_MOST_HOMES = 200
"""A name that more passages have says nothing about which is meant."""
_MOST_MENTIONERS = 2000
"""How many passages that mention one name are looked at, at most: the first ones."""


class Way(StrEnum):
    """How a candidate came to be one."""

    SEARCH = "search"
    NAMED = "named"
    """The question has its name."""
    LINK = "link"
    """Another candidate mentions its name."""
    BACKLINK = "backlink"
    """It mentions the name of another candidate."""
    SHARED = "shared"
    """It mentions a name that another candidate mentions too."""
    DENSE = "dense"
    """Its vector is near that of the question."""


class Route(NamedTuple):
    """The way to a candidate, from which passage, and where the name stands: a mention, or a name of the question."""

    way: Way
    source: int = -1
    """The passage in which the name stands; -1 for the question."""
    start: int = -1
    """Where the name begins among the words of that passage, or of the question."""
    end: int = -1


class QuestionName(NamedTuple):
    """A name in the question."""

    name: int
    rarity: float
    start: int
    end: int


@dataclass(slots=True)
class Candidates:
    """Candidates of a question, with how each was found."""

    found: dict[int, Route] = field(default_factory=dict)
    named: dict[int, tuple[float, int, int]] = field(default_factory=dict)
    """Passages whose name the question has: the name's rarity, how many passages have it, and its kind."""
    seeds: list[int] = field(default_factory=list)

    def add(self, passage: int, route: Route) -> None:
        """Add a passage unless it is there."""
        self.found.setdefault(passage, route)


def names_in_question(words: Tokens, rarity: Floats, graph: NameGraph) -> list[QuestionName]:
    """Return the names that a question mentions; common words are left out, in a question without capitals too."""
    written_with_capitals = bool(words.capital[1:].any())
    needed = rarity_needed(len(graph))
    found = []
    for start, length, name in zip(*(column.tolist() for column in graph.find_names(words.hashes)), strict=True):
        total = float(rarity[start : start + length].sum())
        written_as_name = not written_with_capitals or (start > 0 and words.capital[start]) or graph.name_is_term[name]
        if total >= needed and (length > 1 or written_as_name):
            found.append(QuestionName(name, total, start, start + length))
    starts, ends = np.array([(each.start, each.end) for each in found], np.int64).reshape(-1, 2).T
    return [found[place] for place in keep_longest(starts, ends - starts, len(words.hashes)).tolist()]


def gather_candidates(
    hits: Sequence[int], scores: Mapping[int, float], names: Sequence[QuestionName], graph: NameGraph
) -> Candidates:
    """Gather the candidates of a question: one step along names from the best hits and from named passages.

    Args:
        hits: What the search found, best first.
        scores: The scores of many more hits: they say which passages of a name with many are meant.
        names: Names in the question.
        graph: The names of the corpus.
    """
    result = Candidates()
    for passage in hits[:SEARCHED]:
        result.add(passage, Route(Way.SEARCH))
    for each in names:
        homes = graph.homes(each.name)
        passages, kinds = graph.home_passage[homes].tolist(), SURENESS[graph.home_kind[homes]].tolist()
        order = sorted(range(len(passages)), key=lambda at: (-scores.get(passages[at], 0.0), kinds[at]))
        for at in order[: _HOMES + 1]:
            result.add(passages[at], Route(Way.NAMED, -1, each.start, each.end))
            if each.rarity > result.named.get(passages[at], (0.0, 0, 0))[0]:
                result.named[passages[at]] = (each.rarity, len(passages), kinds[at])
    named = sorted(result.named, key=lambda passage: -result.named[passage][0])[:_MOST_NAMED]
    result.seeds = list(dict.fromkeys([*hits[:_SEEDS], *named]))
    for at, seed in enumerate(result.seeds):
        _follow_links(seed, result, scores, graph, _HOMES if at < _FIRST_SEEDS or seed in named else _FEWER_HOMES)
    _follow_shared_names(result, scores, graph)
    for seed in result.seeds[:_BACKLINK_SEEDS]:
        _follow_backlinks(seed, result, scores, graph)
    return result


def follow_second_step(best: Sequence[int], result: Candidates, scores: Mapping[int, float], graph: NameGraph) -> None:
    """Add what the best candidates of the first step lead to."""
    for seed in best:
        if seed not in result.seeds:
            _follow_links(seed, result, scores, graph, _FEWER_HOMES)


def _first_mentions(mentions: Mentions, passage: int) -> dict[int, int]:
    """Return the names that a passage mentions, in order, each with its first mention."""
    here = mentions.of_passage(passage)
    first: dict[int, int] = {}
    for mention, name in enumerate(mentions.name[here].tolist(), here.start):
        first.setdefault(name, mention)
    return first


def _route(way: Way, source: int, mentions: Mentions, mention: int) -> Route:
    return Route(way, source, int(mentions.start[mention]), int(mentions.end[mention]))


def _follow_links(seed: int, result: Candidates, scores: Mapping[int, float], graph: NameGraph, most: int) -> None:
    """Add the passages whose names a passage mentions."""
    for name, mention in _first_mentions(graph.named, seed).items():
        homes = graph.home_passage[graph.homes(name)].tolist()
        if len(homes) > most:
            homes = sorted(homes, key=lambda passage: -scores.get(passage, 0.0))[:most]
        for passage in homes:
            result.add(passage, _route(Way.LINK, seed, graph.named, mention))


def _follow_shared_names(result: Candidates, scores: Mapping[int, float], graph: NameGraph) -> None:
    """Add passages that mention the same rare name as one of the best hits does."""
    room = _MOST_SHARED
    for seed in result.seeds[:_SHARED_SEEDS]:
        for mentions in (graph.shared, graph.named):
            for name, mention in _first_mentions(mentions, seed).items():
                if mentions.name_bounds[name + 1] - mentions.name_bounds[name] > 20 * _MOST_SHARING:
                    continue
                others = dict.fromkeys(mentions.passages_with(name).tolist())
                if len(others) > _MOST_SHARING:
                    continue
                new = [other for other in others if other not in result.found]
                for other in sorted(new, key=lambda each: -scores.get(each, 0.0))[:_SHARED]:
                    if not room:
                        return
                    result.add(other, _route(Way.SHARED, seed, mentions, mention))
                    room -= 1


def _follow_backlinks(seed: int, result: Candidates, scores: Mapping[int, float], graph: NameGraph) -> None:
    """Add passages that mention the name of a passage, where the search has found them somewhere."""
    mentions = graph.named
    near: dict[int, tuple[float, int]] = {}
    for name in graph.own_names(seed).tolist():
        low, high = int(mentions.name_bounds[name]), int(mentions.name_bounds[name + 1])
        for mention in mentions.by_name[low : min(high, low + _MOST_MENTIONERS)].tolist():
            passage = int(mentions.passage[mention])
            if passage != seed and passage in scores:
                near.setdefault(passage, (scores[passage], mention))
    for passage in sorted(near, key=lambda each: -near[each][0])[:_BACKLINKS]:
        result.add(passage, _route(Way.BACKLINK, seed, mentions, near[passage][1]))


@dataclass(frozen=True, slots=True)
class Links:
    """Links among the candidates of a question: passage `source` mentions a name of passage `target`."""

    source: Integers
    target: Integers
    start: Integers
    """Where the mention begins among the words of the source, counted from the passage's beginning."""
    end: Integers
    homes: Integers
    """How many passages have the mentioned name."""
    kind: Integers
    rarity: Floats
    """The sum of the rarities of the name's words."""
    in_question: Flags
    """Whether the question has the name too."""
    name: Integers


def links_among(passages: Sequence[int], names: Sequence[QuestionName], graph: NameGraph) -> Links:
    """Return all links between these passages, as places in the list."""
    place = {passage: at for at, passage in enumerate(passages)}
    rows: list[tuple[int, int, int, int, int, int]] = []
    both = (graph.named, graph.shared)
    mentioners: tuple[dict[int, list[tuple[int, int]]], ...] = ({}, {})
    for at, passage in enumerate(passages):
        for mentions, by_name in zip(both, mentioners, strict=True):
            here = mentions.of_passage(passage)
            for mention, name in enumerate(mentions.name[here].tolist(), here.start):
                by_name.setdefault(name, []).append((at, mention))
    for name, places in mentioners[0].items():
        homes = graph.homes(name)
        count = homes.stop - homes.start
        if count > _MOST_HOMES:
            continue
        kinds = SURENESS[graph.home_kind[homes]].tolist()
        for passage, kind in zip(graph.home_passage[homes].tolist(), kinds, strict=True):
            target = place.get(passage, -1)
            if target >= 0:
                rows += [(at, target, mention, count, kind, name) for at, mention in places if at != target]
    from_named = len(rows)
    for number, (mentions, by_name) in enumerate(zip(both, mentioners, strict=True)):
        for name, places in by_name.items():
            total = int(mentions.name_bounds[name + 1] - mentions.name_bounds[name])
            if len(places) > 1 and total <= _MOST_SHARING * 2:
                others = dict.fromkeys(at for at, _ in places)
                key = -1 - name if number else name
                rows += [
                    (at, other, mention, total, SHARED_KIND, key)
                    for at, mention in places
                    for other in others
                    if other != at
                ]
        if not number:
            from_named = len(rows)
    source, target_, mention_, homes_, kind_, name_ = np.array(rows, np.int32).reshape(-1, 6).T
    first, rest = mention_[:from_named], mention_[from_named:]
    start, end, rarity = (
        np.concatenate((getattr(graph.named, column)[first], getattr(graph.shared, column)[rest]))
        for column in ("start", "end", "rarity")
    )
    in_question = np.isin(name_, [each.name for each in names])
    return Links(source, target_, start, end, homes_, kind_, rarity, in_question, name_)
