"""Limit a search to passages by their metadata: `type=pdf and year>=2024`.

    filter  = all ("or" all)*
    all     = part ("and" part)*
    part    = "not" part | "(" filter ")" | NAME OPERATOR VALUE
    OPERATOR: = != < <= > >=
    VALUE: a word, or any text in quotes; with = and !=, `*` matches any characters

Numbers are compared as numbers and other values, dates among them, as text without regard to capitals. `path` is the
file of a passage with its folders, `file` the name of that file, and `language` the passage's language; other names are
those of its metadata. An engine lists the values that a name has, the comparison is made here, and the search gets the
values that satisfy it: the same on every engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, cast, runtime_checkable

from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.retrieval.protocol import Retriever

PATH, FILE, LANGUAGE = "path", "file", "language"
"""The names that are not metadata of the reader."""

_LONGEST, _DEEPEST = 2000, 20
_TOKEN = re.compile(
    r"""\s*(?:(?P<mark>[()]|!=|<=|>=|[=<>])|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<word>[^\s()<>=!"']+))"""
)
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_REMEDY = "Write it like: type=pdf and year>=2024."


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a name with a value."""

    name: str
    operator: str
    value: str

    def accepts(self, held: str) -> bool:
        """Return whether a value that a passage has under the name satisfies the comparison, `!=` taken as `=`."""
        ours, theirs = _to_number(self.value), _to_number(held)
        if self.operator in ("=", "!="):
            if ours is not None and theirs is not None:
                return ours == theirs
            return _matches(self.value.casefold(), held.casefold(), is_path=self.name == PATH)
        if ours is not None and theirs is not None:
            order = (theirs > ours) - (theirs < ours)
        elif ours is not None and not held[:1].isdigit():
            # A word is neither more nor less than a number; a date begins with its year.
            return False
        else:
            left, right = held.casefold(), self.value.casefold()
            order = (left > right) - (left < right)
        return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[self.operator]


@dataclass(frozen=True, slots=True)
class Both:
    """All parts hold."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of the parts holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Filter


Filter = Condition | Both | Either | Not


@runtime_checkable
class Filterable(Protocol):
    """A retriever that can limit its searches to some passages."""

    def where(self, wanted: Filter) -> Self:
        """Return the same retriever, limited to these passages beside what it is limited to already."""
        ...


def limit_retriever(retriever: Retriever, where: str | Filter | None) -> Retriever:
    """Return a retriever limited to the passages that a filter describes; an empty one describes all."""
    if where is None or where == "":
        return retriever
    if not isinstance(retriever, Filterable):
        raise SettingsError(
            f"A search of {type(retriever).__name__} cannot be limited by metadata.", remedy="Leave the filter out."
        )
    wanted = parse_filter(where) if isinstance(where, str) else where
    return cast("Retriever", retriever.where(wanted))


def parse_filter(text: str) -> Filter:
    """Read a filter. Its words and values are data: nothing of it is ever executed."""
    if len(text) > _LONGEST:
        raise SettingsError(f"The filter has {len(text):,} characters.", remedy=f"Write at most {_LONGEST:,}.")
    return _Parser(text).read_all()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._next = at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error(f"{text[at:].strip()[:20]!r} cannot be read")
            self._tokens.append((found.lastgroup or "", found[found.lastgroup or 0]))
            at = found.end()

    def _error(self, problem: str) -> SettingsError:
        return SettingsError(f"The filter {self._text[:100]!r} cannot be used: {problem}.", remedy=_REMEDY)

    def _take(self, kind: str, *words: str) -> str | None:
        """Return the next token and go on if it is of a kind, and one of some words."""
        if self._next < len(self._tokens):
            found, word = self._tokens[self._next]
            if found == kind and (not words or word.lower() in words):
                self._next += 1
                return word
        return None

    def read_all(self) -> Filter:
        result = self._read_either(0)
        if self._next < len(self._tokens):
            raise self._error(f"{self._tokens[self._next][1]!r} is unexpected")
        return result

    def _read_either(self, depth: int) -> Filter:
        parts = [self._read_both(depth)]
        while self._take("word", "or"):
            parts.append(self._read_both(depth))
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _read_both(self, depth: int) -> Filter:
        parts = [self._read_part(depth)]
        while self._take("word", "and"):
            parts.append(self._read_part(depth))
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def _read_part(self, depth: int) -> Filter:
        if depth > _DEEPEST:
            raise self._error("it is nested too deeply")
        if self._take("word", "not"):
            return Not(self._read_part(depth + 1))
        if self._take("mark", "("):
            inner = self._read_either(depth + 1)
            if not self._take("mark", ")"):
                raise self._error("a parenthesis is not closed")
            return inner
        name = self._take("word")
        if name is None:
            raise self._error("a name is missing")
        operator = self._take("mark", *_OPERATORS)
        if operator is None:
            raise self._error(f"{name!r} is not compared with a value")
        value = next((each for kind in ("word", "double", "single") if (each := self._take(kind)) is not None), None)
        if value is None:
            raise self._error(f"a value is missing after {name}{operator}")
        condition = Condition(name.lower(), operator, value)
        return Not(condition) if operator == "!=" else condition


def names_in(wanted: Filter) -> set[str]:
    """Return the names that a filter compares."""
    match wanted:
        case Condition():
            return {wanted.name}
        case Not():
            return names_in(wanted.part)
    return set().union(*map(names_in, wanted.parts))


def matching_values(condition: Condition, values: Iterable[str]) -> list[str]:
    """Return those of the values under a condition's name that satisfy it."""
    if condition.name == FILE:
        return [value for value in values if condition.accepts(value.rpartition("/")[2])]
    return [value for value in values if condition.accepts(value)]


def _to_number(text: str) -> float | None:
    # Only digits: to Python, "nan", "1_000" and "infinity" are numbers, too.
    return float(text) if re.fullmatch(r"-?\d{1,300}(?:\.\d{1,300})?", text, re.ASCII) else None


def _matches(pattern: str, value: str, *, is_path: bool) -> bool:
    """Return whether a pattern describes a value; a pattern of a path may describe its end, from a folder on."""
    if is_path and "/" in value:
        parts = value.split("/")
        return any(_matches(pattern, "/".join(parts[at:]), is_path=False) for at in range(len(parts)))
    first, *others = pattern.split("*")
    if not others:
        return value == pattern
    # A regular expression with many wildcards could take for ever.
    at = len(first)
    for part in others[:-1]:
        at = value.find(part, at) + len(part)
        if at < len(part):
            return False
    return value.startswith(first) and value.endswith(others[-1]) and len(value) - len(others[-1]) >= at
