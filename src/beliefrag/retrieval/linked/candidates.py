"""Passages that may be needed: what the search found, what the question names, and what those lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from beliefrag.retrieval.linked.graph import Mentions, NameGraph, keep_longest
from beliefrag.retrieval.linked.names import SURENESS
from beliefrag.retrieval.linked.words import Tokens, rarity_needed

Integers = NDArray[np.int32]

SHARED_KIND = 5
"""The kind of a link between two passages that mention the same name; smaller kinds lead to a passage about it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many candidates come from where."""

    search: int = 20
    seeds: int = 8
    """How many of the best hits are followed along their links."""
    homes: int = 6
    """How many passages of one name are taken from the first seeds: those that the search likes best."""
    fewer_homes: int = 3
    """How many from the later seeds."""
    first_seeds: int = 4
    shared_seeds: int = 5
    """From how many of the best hits names are followed that no passage is about."""
    shared: int = 4
    """How many passages that mention such a name are taken."""
    shared_in_all: int = 30
    most_sharing: int = 12
    named: int = 6
    in_seeds: int = 6
    in_links: int = 4
    near: int = 10
    """How many of the nearest passages are taken, where there are vectors."""
    most_homes: int = 200
    """A name that more passages have says nothing about which is meant."""
    most_mentioners: int = 2000
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


@dataclass(frozen=True, slots=True)
class Route:
    """The way to a candidate, from which passage, and where the name stands: a mention, or a name of the question."""

    way: Way
    source: int = -1
    """The passage in which the name stands; -1 for the question."""
    start: int = -1
    """Where the name begins among the words of that passage, or of the question."""
    end: int = -1


@dataclass(frozen=True, slots=True)
class QuestionName:
    """A name that stands in the question."""

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
        """Adds a passage unless it is there."""
        self.found.setdefault(passage, route)


def names_in_question(words: Tokens, rarity: NDArray[np.float32], graph: NameGraph) -> list[QuestionName]:
    """Gives the names that a question mentions; common words are left out, in a question without capitals too."""
    written_with_capitals = bool(words.capital[1:].any())
    needed = rarity_needed(len(graph))
    starts, lengths, names = graph.find_names(words.hashes)
    keep = []
    for place, (start, length, name) in enumerate(zip(starts.tolist(), lengths.tolist(), names.tolist(), strict=True)):
        single = length == 1
        written_as_name = (
            not written_with_capitals or (start > 0 and bool(words.capital[start])) or bool(graph.name_is_term[name])
        )
        if float(rarity[start : start + length].sum()) >= needed and (not single or written_as_name):
            keep.append(place)
    starts, lengths, names = starts[keep], lengths[keep], names[keep]
    return [
        QuestionName(
            int(names[place]),
            float(rarity[starts[place] : starts[place] + lengths[place]].sum()),
            int(starts[place]),
            int(starts[place] + lengths[place]),
        )
        for place in keep_longest(starts, lengths, len(words.hashes)).tolist()
    ]


def gather_candidates(
    hits: Sequence[int],
    scores: Mapping[int, float],
    names: Sequence[QuestionName],
    graph: NameGraph,
    limits: Limits,
) -> Candidates:
    """Gathers the candidates of a question: one step along names from the best hits and from named passages.

    Args:
        hits: What the search found, best first.
        scores: The scores of many more hits: they say which passages of a name with many are meant.
        names: Names in the question.
        graph: The names of the corpus.
        limits: How many come from where.
    """
    result = Candidates()
    for passage in hits[: limits.search]:
        result.add(passage, Route(Way.SEARCH))
    for each in names:
        homes = graph.homes(each.name)
        passages, kinds = graph.home_passage[homes].tolist(), SURENESS[graph.home_kind[homes]].tolist()
        order = sorted(range(len(passages)), key=lambda at: (-scores.get(passages[at], 0.0), kinds[at]))
        for at in order[: limits.homes + 1]:
            result.add(passages[at], Route(Way.NAMED, -1, each.start, each.end))
            if each.rarity > result.named.get(passages[at], (0.0, 0, 0))[0]:
                result.named[passages[at]] = (each.rarity, len(passages), kinds[at])
    named = sorted(result.named, key=lambda passage: -result.named[passage][0])[: limits.named]
    result.seeds = list(dict.fromkeys([*hits[: limits.seeds], *named]))
    for at, seed in enumerate(result.seeds):
        first = at < limits.first_seeds or seed in named
        _follow_links(seed, result, scores, graph, limits.homes if first else limits.fewer_homes)
    _follow_shared_names(result, scores, graph, limits)
    for seed in result.seeds[: limits.in_seeds]:
        _follow_backlinks(seed, result, scores, graph, limits)
    return result


def follow_second_step(
    best: Sequence[int], result: Candidates, scores: Mapping[int, float], graph: NameGraph, limits: Limits
) -> None:
    """Adds what the best candidates of the first step lead to."""
    for seed in best:
        if seed not in result.seeds:
            _follow_links(seed, result, scores, graph, limits.fewer_homes)


def _first_mentions(mentions: Mentions, passage: int) -> dict[int, int]:
    """Gives the names that a passage mentions, in order, each with its first mention."""
    here = mentions.of_passage(passage)
    first: dict[int, int] = {}
    for mention, name in enumerate(mentions.name[here].tolist(), here.start):
        first.setdefault(name, mention)
    return first


def _route(way: Way, source: int, mentions: Mentions, mention: int) -> Route:
    return Route(way, source, int(mentions.start[mention]), int(mentions.end[mention]))


def _follow_links(seed: int, result: Candidates, scores: Mapping[int, float], graph: NameGraph, most: int) -> None:
    """Adds the passages whose names a passage mentions."""
    for name, mention in _first_mentions(graph.named, seed).items():
        homes = graph.home_passage[graph.homes(name)].tolist()
        if len(homes) > most:
            homes = sorted(homes, key=lambda passage: -scores.get(passage, 0.0))[:most]
        for passage in homes:
            if passage not in result.found:
                result.add(passage, _route(Way.LINK, seed, graph.named, mention))


def _follow_shared_names(result: Candidates, scores: Mapping[int, float], graph: NameGraph, limits: Limits) -> None:
    """Adds passages that mention the same rare name as one of the best hits does."""
    room = limits.shared_in_all
    for seed in result.seeds[: limits.shared_seeds]:
        for mentions in (graph.shared, graph.named):
            for name, mention in _first_mentions(mentions, seed).items():
                if mentions.name_bounds[name + 1] - mentions.name_bounds[name] > 20 * limits.most_sharing:
                    continue
                others = dict.fromkeys(mentions.passages_with(name).tolist())
                if len(others) > limits.most_sharing:
                    continue
                new = [other for other in others if other not in result.found]
                for other in sorted(new, key=lambda each: -scores.get(each, 0.0))[: limits.shared]:
                    if not room:
                        return
                    result.add(other, _route(Way.SHARED, seed, mentions, mention))
                    room -= 1


def _follow_backlinks(
    seed: int, result: Candidates, scores: Mapping[int, float], graph: NameGraph, limits: Limits
) -> None:
    """Adds passages that mention the name of a passage, where the search has found them somewhere."""
    mentions = graph.named
    near: dict[int, tuple[float, int]] = {}
    for name in graph.own_names(seed).tolist():
        low, high = int(mentions.name_bounds[name]), int(mentions.name_bounds[name + 1])
        for mention in mentions.by_name[low : min(high, low + limits.most_mentioners)].tolist():
            passage = int(mentions.passage[mention])
            if passage != seed and passage in scores:
                near.setdefault(passage, (scores[passage], mention))
    for passage in sorted(near, key=lambda each: -near[each][0])[: limits.in_links]:
        mention = near[passage][1]
        result.add(passage, Route(Way.BACKLINK, seed, int(mentions.start[mention]), int(mentions.end[mention])))


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
    rarity: NDArray[np.float32]
    """The sum of the rarities of the name's words."""
    in_question: NDArray[np.bool_]
    """Whether the question has the name too."""
    name: Integers


def links_among(passages: Sequence[int], names: Sequence[QuestionName], graph: NameGraph, limits: Limits) -> Links:
    """Gives all links between these passages, as places in the list."""
    place = {passage: at for at, passage in enumerate(passages)}
    in_question = {each.name for each in names}
    rows: list[tuple[int, int, int, int, int, int]] = []
    both = (graph.named, graph.shared)
    mentioners: tuple[dict[int, list[tuple[int, int]]], ...] = ({}, {})
    for at, passage in enumerate(passages):
        for mentions, by_name in zip(both, mentioners, strict=True):
            here = mentions.of_passage(passage)
            for mention, name in enumerate(mentions.name[here].tolist(), here.start):
                by_name.setdefault(name, []).append((at, mention))
    bounds = graph.name_bounds
    for name, places in mentioners[0].items():
        low, high = int(bounds[name]), int(bounds[name + 1])
        if high - low > limits.most_homes:
            continue
        for home, passage in enumerate(graph.home_passage[low:high].tolist(), low):
            target = place.get(passage)
            if target is not None:
                kind = int(SURENESS[graph.home_kind[home]])
                rows += [(at, target, mention, high - low, kind, name) for at, mention in places if at != target]
    from_named = len(rows)
    for number, (mentions, by_name) in enumerate(zip(both, mentioners, strict=True)):
        for name, places in by_name.items():
            total = int(mentions.name_bounds[name + 1] - mentions.name_bounds[name])
            if len(places) > 1 and total <= limits.most_sharing * 2:
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
    source, target_, mention_, homes, kind_, name_ = np.array(rows, np.int32).reshape(-1, 6).T
    first, rest = mention_[:from_named], mention_[from_named:]
    return Links(
        source,
        target_,
        np.concatenate((graph.named.start[first], graph.shared.start[rest])),
        np.concatenate((graph.named.end[first], graph.shared.end[rest])),
        homes,
        kind_,
        np.concatenate((graph.named.rarity[first], graph.shared.rarity[rest])),
        np.isin(name_, list(in_question)) if in_question else np.zeros(len(name_), bool),
        name_,
    )
