"""Loads our own form of every benchmark: `questions.jsonl`, `corpus.jsonl` (packed or not) and `card.json` in a folder.

A question has `id`, `question`, `answers` and `supporting` (null where nobody annotated it); `answer_groups`,
`fakeanswer` and `answer_form` where they apply; every other field is a label. A passage has `id`, `title` and `text`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from beliefrag.bench.card import Card
from beliefrag.bench.datasets.catalogue import FORMATS
from beliefrag.bench.datasets.entry import BadRecord, labelled, needed, passage_id, strings, text
from beliefrag.bench.datasets.records import Problem, Record, read_json_lines
from beliefrag.bench.datasets.rgb import answer_groups
from beliefrag.bench.datasets.writing import CARD, CORPUS, OWN_FIELDS, QUESTIONS, file_record
from beliefrag.bench.questions import Dataset, LabelledQuestion
from beliefrag.runs.errors import DataError
from beliefrag.types import Passage

__all__ = ["is_dataset", "load_dataset", "load_passages"]

_T = TypeVar("_T")


def is_dataset(folder: Path) -> bool:
    """Whether a folder holds questions in the common form."""
    return any((folder / name).is_file() for name in (QUESTIONS, f"{QUESTIONS}.gz"))


def load_dataset(folder: Path) -> Dataset:
    """A benchmark from a folder in the common form.

    Args:
        folder: Holds `questions.jsonl` and `corpus.jsonl`, each with or without `.gz`.

    Raises:
        DataError: A file is missing, broken or not the one that the card describes, or supporting passages are not in
            the corpus.
    """
    questions = _whole(_question(record) for record in read_json_lines(_find(folder, QUESTIONS)))
    passages = load_passages(folder)
    known = {passage.id for passage in passages}
    lost = [question.id for question in questions if not known.issuperset(question.gold.supporting or ())]
    if lost:
        raise DataError(
            f"{len(lost)} questions of {folder.name} rest on passages that the corpus lacks, such as {lost[0]!r}.",
            remedy="Give the corpus that belongs to the questions.",
        )
    card = _card(folder) or _described(folder, questions, passages)
    return Dataset(card.name, questions, passages, card)


def load_passages(path: Path) -> tuple[Passage, ...]:
    """The passages of a folder in the common form, or of a JSON Lines file with `title` and `text`.

    A passage without an id gets one made from its words.
    """
    file = _find(path, CORPUS) if path.is_dir() else path
    return _whole(_passage(record) for record in read_json_lines(file))


def _question(record: Record | Problem) -> LabelledQuestion | Problem:
    if isinstance(record, Problem):
        return record
    data = record.data
    try:
        supporting, fake = needed(data, "supporting"), data.get("fakeanswer")
        return labelled(
            text(data, "id"),
            text(data, "question"),
            strings(needed(data, "answers"), "answers"),
            None if supporting is None else strings(supporting, "supporting"),
            groups=answer_groups(data["answer_groups"]) if data.get("answer_groups") else (),
            fake_answer=strings(fake, "fakeanswer")[0] if fake else None,
            # A count of answer rows is how files made before `answer_form` tell a set.
            is_set=data.get("answer_form") == "set" or "n_answer_rows" in data,
            labels={key: value for key, value in data.items() if key not in OWN_FIELDS},
        )
    except BadRecord as error:
        return Problem(record.place, str(error))


def _passage(record: Record | Problem) -> Passage | Problem:
    if isinstance(record, Problem):
        return record
    try:
        title, body = text({"title": "", **record.data}, "title"), text(record.data, "text")
        own = text(record.data, "id") if record.data.get("id") else passage_id(title, body)
    except BadRecord as error:
        return Problem(record.place, str(error))
    return Passage(own, title, body)


def _whole(found: Iterable[_T | Problem]) -> tuple[_T, ...]:
    """All of it or an error: a dataset in the common form was complete when it was written."""
    values, problems = [], []
    for value in found:
        if isinstance(value, Problem):
            problems.append(value)
        else:
            values.append(value)
    if problems:
        more = f" ({len(problems)} such records)" if len(problems) > 1 else ""
        raise DataError(f"{problems[0]}{more}.", remedy="Import the dataset again, or mend the file.")
    return tuple(values)


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.is_file():
            return candidate
    what = "no folder" if not folder.is_dir() else f"no {name} or {name}.gz in it"
    raise DataError(
        f"{folder} is not a dataset: there is {what}.",
        remedy="Make one with 'beliefrag data import', or name the folder that holds it.",
    )


def _card(folder: Path) -> Card | None:
    path = folder / CARD
    if not path.exists():
        return None
    try:
        card = Card.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = f"{error.error_count()} fields are wrong" if isinstance(error, ValidationError) else error.strerror
        raise DataError(f"{path} cannot be used: {reason}.", remedy="Import the dataset again.") from None
    for name in (QUESTIONS, CORPUS):
        actual = file_record(_find(folder, name))
        if actual not in card.outputs:
            raise DataError(
                f"{folder / actual.name} is not the file that its card describes.",
                remedy="Import the dataset again; or delete card.json if you changed the file on purpose.",
            )
    return card


def _described(folder: Path, questions: Iterable[LabelledQuestion], passages: tuple[Passage, ...]) -> Card:
    """A card for a folder that has none, with what can be counted and what is known of a benchmark of this name."""
    name = folder.resolve().name
    known = FORMATS.get(name)
    dataset = Dataset(name, tuple(questions), passages, Card(name=name))
    files = [_find(folder, QUESTIONS)]
    files += [path for path in (folder / f"{CORPUS}.gz", folder / CORPUS) if path.is_file()][:1]
    return Card(
        name=name,
        title=known.title if known else "",
        licence=known.licence if known else "",
        source=known.source if known else "",
        questions=len(dataset.questions),
        passages=len(passages),
        splits=dataset.splits(),
        with_supporting=sum(question.gold.supporting is not None for question in dataset.questions),
        outputs=tuple(file_record(path) for path in files),
    )
