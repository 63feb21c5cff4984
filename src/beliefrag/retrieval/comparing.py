"""Comparing: answers a question for the earlier or later of two things from the dates in their passages.

"Who was born first, Ada Holm or Per Lund?" and "Which film has the director who died later, Dusk or Dawn?" need two
dates and a subtraction. Small models read the dates and get the subtraction wrong, so it is done here, without a model.
It decides only where the question has that form, both things are titles of passages, and each passage (or the one
that it names as its director, singer, ...) gives its date; in all other cases there is no answer, and a model reads.
Questions must be English.

All functions are pure: the same question and passages always give the same answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from beliefrag.answering.packing import find_sentences, lower_words
from beliefrag.retrieval.dates import Date, find_beginning, find_life
from beliefrag.types import Passage

__all__ = ["DateComparison", "NamedOption", "compare_dates", "find_options"]

_WORD = re.compile(r"[^\W_]+")
_PARENTHESES = re.compile(r"\([^()]*\)")
_ARTICLES = ("the", "a", "an")
_SMALL_ARTICLE = re.compile(r"^(?:the|a|an)\s+")
_LONGEST_QUESTION = 16
"""In words beside the two options: a longer question asks for more than a comparison of dates."""
_MARK = "\x00"
"""Stands for an option in what is left of a question."""
_END = rf"(?:\s+than the other(?: one)?)?\s*(?=[,:;?–-]|{_MARK}|$)"
_EARLIER = re.compile(rf"\b(?:first|earlier|earliest|older|oldest){_END}")
_LATER = re.compile(rf"\b(?:later|latest|younger|youngest|last|newer|(?:more|most) recent(?:ly)?){_END}")
_LIVED_LONGER = re.compile(rf"\blived (?:longer|the longest){_END}")
_DIED = re.compile(r"\b(?:died|die|death)\b")
_BORN = re.compile(r"\b(?:born|birth|older|oldest|younger|youngest)\b")
_BEGAN = re.compile(
    r"\b(?:released|came|come|comes|published|formed|founded|established|started|created|opened|built|made|launched"
    r"|aired|premiered|debuted|began|introduced|produced|incorporated|happen|happened|occurred|newer)\b"
)
_AGE = re.compile(r"\b(?:older|oldest|younger|youngest|newer)\b")
_ROLE = re.compile(r"\b(?:whose|(?:has|had|have|with) (?:the|a|an)) ([^\W\d_]+)")
_SPOILERS = re.compile(r"\d|\bnot\b")
"""A question with a number of its own, or with a negation, is no plain comparison."""
_STEM = 6
"""So many letters of a role say what it does: those of "director" stand in "directed by"."""
_BEFORE, _FAR = 10**6, 10**7
"""The distance from a role to a name that stands before it, and to one that stands in no sentence with it."""


class _Attribute(Enum):
    BIRTH = "born"
    DEATH = "died"
    BEGINNING = ""
    LIFE = "lived"


@dataclass(frozen=True, slots=True)
class NamedOption:
    """One of the two things between which a question lets one choose."""

    text: str
    """As the question writes it."""
    passage: int
    """Which of the passages has it as its title."""


@dataclass(frozen=True, slots=True)
class DateComparison:
    """The option that the dates speak for, and what was compared."""

    answer: str
    compared: tuple[str, str]
    """For each option what was found, in words."""


def find_options(question: str, passages: Sequence[Passage]) -> tuple[NamedOption, NamedOption] | None:
    """Gives the two titles of passages that stand on both sides of an "or" of the question; None where none do."""
    names = [(_name_words(passage.title), _title_words(passage.title)) for passage in passages]
    held = Counter(title for both in names for title in set(both) if title)
    # A title that several passages have does not say which of them is meant.
    places = {title: number for number, both in enumerate(names) for title in both if held[title] == 1}
    longest = max(map(len, places), default=0) + 2
    words = list(_WORD.finditer(question))
    for here in range(len(words) - 2, 0, -1):
        if words[here][0].lower() != "or":
            continue
        starts = range(max(0, here - longest), here)
        left = _first_title(((words[start].start(), words[here].start()) for start in starts), question, places)
        begin = words[here + 1].start()
        ends = range(min(len(words), here + longest) - 1, here, -1)
        right = _first_title(((begin, words[end].end()) for end in ends), question, places)
        if left and right and left.passage != right.passage:
            return left, right
    return None


def _name_words(text: str) -> tuple[str, ...]:
    words = lower_words(text)
    return tuple(words[1:] if len(words) > 1 and words[0] in _ARTICLES else words)


def _title_words(title: str) -> tuple[str, ...]:
    """The words of a title without what stands in parentheses, which often only tells like titles apart."""
    return _name_words(_PARENTHESES.sub(" ", title))


def _first_title(
    spans: Iterable[tuple[int, int]], question: str, places: Mapping[tuple[str, ...], int]
) -> NamedOption | None:
    """The first of these parts of the question that is a title."""
    for start, end in spans:
        text = question[start:end].strip(" ,;:")
        text += ")" * (text.count("(") - text.count(")"))
        number = places.get(_name_words(text))
        if number is not None:
            # A small article belongs to the sentence, a capital one to the name.
            return NamedOption(_SMALL_ARTICLE.sub("", text), number)
    return None


def compare_dates(question: str, passages: Sequence[Passage]) -> DateComparison | None:
    """Answers a question for the earlier or later of two things; None where that is not what it asks, or not certain.

    Args:
        question: What is asked.
        passages: The evidence, as it was found.
    """
    options = find_options(question, passages)
    if options is None:
        return None
    rest = question
    for option in options:
        rest = rest.replace(option.text, _MARK, 1)
    asked = _read_comparison(rest)
    if asked is None:
        return None
    attribute, wants_later = asked
    role = _ROLE.search(rest)
    holders = [_find_holder(role[1].lower() if role else None, option, options, passages) for option in options]
    # Of a band or a building people say that it is older, too; somebody's director is a person.
    may_be_thing = role is None and bool(_AGE.search(rest))
    began = _BEGAN.search(rest)
    verb = began[0] if began else ""
    one, other = (
        None if holder is None else _find_value(attribute, passages[holder], verb, may_be_thing=may_be_thing)
        for holder in holders
    )
    if one is None or other is None:
        return None
    is_first_earlier = one < other if isinstance(one, int) and isinstance(other, int) else _is_before(one, other)
    if is_first_earlier is None or one == other:
        return None
    chosen = options[0] if is_first_earlier is not wants_later else options[1]
    first, second = (
        _describe(attribute, option, passages[holder], value)
        for option, holder, value in zip(options, holders, (one, other), strict=True)
        if holder is not None
    )
    return DateComparison(chosen.text, (first, second))


def _read_comparison(rest: str) -> tuple[_Attribute, bool] | None:
    """What of the two is compared, and whether the later one is wanted; None where the question asks something else."""
    if _SPOILERS.search(rest) or len(_WORD.findall(rest)) > _LONGEST_QUESTION:
        return None
    if _LIVED_LONGER.search(rest):
        return _Attribute.LIFE, True
    is_later, is_earlier = bool(_LATER.search(rest)), bool(_EARLIER.search(rest))
    if is_later is is_earlier:
        return None
    for pattern, attribute in (
        (_DIED, _Attribute.DEATH),
        (_BORN, _Attribute.BIRTH),
        (_BEGAN, _Attribute.BEGINNING),
    ):
        if pattern.search(rest):
            return attribute, is_later
    return None


def _find_holder(
    role: str | None, option: NamedOption, options: Sequence[NamedOption], passages: Sequence[Passage]
) -> int | None:
    """The passage whose date counts for an option: its own, or that of its director, singer, ...; None if unclear."""
    if role is None:
        return option.passage
    own = [each.passage for each in options]
    text = passages[option.passage].text
    found: dict[int, int] = {}
    for start, end in find_sentences(text):
        sentence = f" {' '.join(lower_words(text[start:end]))} "
        said = sentence.find(f" {role[:_STEM]}")
        for number, passage in enumerate(passages):
            name = f" {' '.join(_title_words(passage.title))} "
            if number in own or not name.strip() or name not in sentence:
                continue
            # "directed by X" comes before "X directed", and both before a name in a sentence without the role.
            after = sentence.find(name, said) if said >= 0 else -1
            distance = after - said if after >= 0 else _BEFORE if said >= 0 else _FAR
            found[number] = min(found.get(number, _FAR), distance)
    nearest = [number for number, distance in found.items() if distance == min(found.values())]
    return nearest[0] if len(nearest) == 1 else None


def _find_value(attribute: _Attribute, passage: Passage, verb: str, *, may_be_thing: bool) -> Date | int | None:
    life = find_life(passage.text)
    if attribute is _Attribute.LIFE:
        return life.months()
    if attribute is _Attribute.DEATH:
        return life.death
    if attribute is _Attribute.BIRTH:
        return life.birth or (find_beginning(passage.text) if may_be_thing and not life.death else None)
    # What a person founded or made, the dates of a life do not tell.
    return None if life.birth and life.death else find_beginning(passage.text, verb)


def _is_before(one: Date | int, other: Date | int) -> bool | None:
    return one.is_before(other) if isinstance(one, Date) and isinstance(other, Date) else None


def _describe(attribute: _Attribute, option: NamedOption, holder: Passage, value: Date | int) -> str:
    is_own = _name_words(option.text) in {_name_words(holder.title), _title_words(holder.title)}
    subject = option.text if is_own else f"{option.text}: {holder.title}"
    said = f"{value // 12} years" if isinstance(value, int) else str(value)
    return " ".join(filter(None, (subject, attribute.value, said)))
