"""Our own form of every benchmark: `questions.jsonl`, `corpus.jsonl` and `card.json` in a folder.

A question has `id`, `question`, `answers` and `supporting` (null if not annotated); `answer_groups`,
`fakeanswer` and `answer_form` where they apply; every other field is a label. A passage has `id`, `title` and `text`.
Both files may be compressed with gzip. The same content always gives the same bytes, and so the same hash.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beliefrag._version import __version__
from beliefrag.bench.datasets.formats import (
    DATASET_FORMATS,
    AnswerGroups,
    DatasetFormat,
    PublishedRecord,
    Texts,
    find_format,
    make_question,
    passage_id,
    read_each,
    read_json_lines,
)
from beliefrag.bench.questions import Card, CardFile, Dataset, LabelledQuestion
from beliefrag.models.download import DownloadError, download_file, list_files
from beliefrag.models.weights import HubFile
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

_QUESTIONS = "questions.jsonl"
_CORPUS = "corpus.jsonl"
_CARD = "card.json"
_PLAIN_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


class _QuestionRecord(PublishedRecord):
    id: str
    question: str
    answers: Texts
    supporting: Texts | None
    answer_groups: AnswerGroups = ()
    fakeanswer: Texts | None = None
    answer_form: str = ""


class _PassageRecord(PublishedRecord):
    id: str | None = None
    title: str = ""
    text: str


def is_dataset(folder: Path) -> bool:
    """Return whether a folder holds questions in the common form."""
    return any((folder / name).is_file() for name in (_QUESTIONS, f"{_QUESTIONS}.gz"))


def load_dataset(folder: Path) -> Dataset:
    """Load a benchmark from a folder in the common form."""
    questions = tuple(read_each(read_json_lines(_find(folder, _QUESTIONS)), _QuestionRecord, _make_question))
    passages = load_passages(folder)
    known = {passage.id for passage in passages}
    lacking = [question.id for question in questions if not known.issuperset(question.gold.supporting or ())]
    if lacking:
        raise DataError(
            f"{len(lacking)} questions of {folder.name} need passages that the corpus lacks, such as {lacking[0]!r}.",
            remedy="Give the corpus that belongs to the questions.",
        )
    card = _read_card(folder)
    if card is not None:
        return Dataset(card.name, questions, passages, card)
    # Of a folder without a card: what can be counted, and what the format of this name says.
    name = folder.resolve().name
    dataset = Dataset(name, questions, passages, Card(name=name))
    known_format = find_format(name) if name in DATASET_FORMATS else None
    outputs = [describe_file(_find(folder, each)) for each in (_QUESTIONS, _CORPUS)]
    return replace(dataset, card=_make_card(dataset, known_format, outputs=tuple(outputs)))


def load_passages(path: Path) -> tuple[Passage, ...]:
    """Load the passages of a folder in the common form, or of a JSON Lines file with `title` and `text`.

    A passage without an id gets one made from its words.
    """
    records = read_json_lines(_find(path, _CORPUS) if path.is_dir() else path)
    found = read_each(records, _PassageRecord, lambda each: each)
    return tuple(Passage(each.id or passage_id(each.title, each.text), each.title, each.text) for each in found)


def _make_question(record: _QuestionRecord) -> LabelledQuestion:
    labels = record.model_extra or {}
    return make_question(
        record.id,
        record.question,
        record.answers,
        record.supporting,
        groups=record.answer_groups,
        fake_answer=record.fakeanswer[0] if record.fakeanswer and record.fakeanswer[0] else None,
        # Files made before there was an `answer_form` mark a set by its number of answer rows.
        is_set=record.answer_form == "set" or "n_answer_rows" in labels,
        labels=labels,
    )


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.is_file():
            return candidate
    what = f"has no {name} or {name}.gz" if folder.is_dir() else "is not a folder"
    raise DataError(
        f"{folder} is not a dataset: it {what}.",
        remedy="Make one with 'beliefrag data import', or name the folder that holds it.",
    )


def _read_card(folder: Path) -> Card | None:
    path = folder / _CARD
    if not path.exists():
        return None
    try:
        card = Card.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = f"{error.error_count()} fields are wrong" if isinstance(error, ValidationError) else error.strerror
        raise DataError(f"{path} cannot be used: {reason}.", remedy="Import the dataset again.") from None
    for name in (_QUESTIONS, _CORPUS):
        actual = describe_file(_find(folder, name))
        if actual not in card.outputs:
            raise DataError(
                f"{folder / actual.name} is not the file that its card describes.",
                remedy="Import the dataset again; or delete card.json if you changed the file on purpose.",
            )
    return card


def _make_card(dataset: Dataset, published: DatasetFormat | None, **more: Any) -> Card:
    return Card(
        name=dataset.name,
        title=published.title if published else "",
        licence=published.licence if published else "",
        source=published.source if published else "",
        questions=len(dataset.questions),
        passages=len(dataset.passages),
        splits=dataset.splits(),
        evaluation=dataset.evaluation_splits(),
        with_supporting=sum(question.gold.supporting is not None for question in dataset.questions),
        **more,
    )


def describe_file(path: Path) -> CardFile:
    """Return the name, size and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return CardFile(name=path.name, sha256=digest, bytes=path.stat().st_size)


def _write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> CardFile:
    # No time and no name in the header: a second import gives the same hash.
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        for record in records:
            packed.write(json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    return describe_file(path)


def _question_record(question: LabelledQuestion) -> dict[str, Any]:
    gold = question.gold
    record: dict[str, Any] = {"id": question.id, "question": question.question.text, "answers": gold.answers}
    record["supporting"] = gold.supporting
    if gold.answer_groups:
        record["answer_groups"] = gold.answer_groups
    if gold.fake_answer is not None:
        record["fakeanswer"] = gold.fake_answer
    if gold.is_set:
        record["answer_form"] = "set"
    return record | {key: value for key, value in gold.labels.items() if key not in _QuestionRecord.model_fields}


def import_dataset(name: str, files: Sequence[Path], out: Path, *, corpus: Path | None = None) -> Card:
    """Read published files and write them in the common form into a new or empty folder.

    `corpus` has further passages to search.
    """
    published = find_format(name)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists already.", remedy="Name another folder, or remove it first.")
    dataset = read_published_files(published, files, corpus=corpus)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary folder and renamed: a folder that exists is complete.
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        passages = ({"id": each.id, "title": each.title, "text": each.text} for each in dataset.passages)
        outputs = (
            _write_lines(temporary / f"{_QUESTIONS}.gz", map(_question_record, dataset.questions)),
            _write_lines(temporary / f"{_CORPUS}.gz", passages),
        )
        card = dataset.card.model_copy(update={"outputs": outputs})
        (temporary / _CARD).write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return card


def read_published_files(published: DatasetFormat, files: Sequence[Path], *, corpus: Path | None = None) -> Dataset:
    """Read the dataset in published files, without writing anything."""
    entries = list(published.read(files))
    if not entries:
        raise DataError(
            f"No question of {published.name} was found in {', '.join(path.name for path in files) or 'no file'}.",
            remedy=f"Give {published.expects}.",
        )
    passages: dict[str, Passage] = {}
    for passage in itertools.chain(*(entry.passages for entry in entries), load_passages(corpus) if corpus else ()):
        passages.setdefault(passage.id, passage)
    questions = tuple(entry.question for entry in entries)
    dataset = Dataset(published.name, questions, tuple(passages.values()), Card(name=published.name))
    card = _make_card(
        dataset,
        published,
        format=published.name,
        notes=published.notes,
        made_by=f"beliefrag {__version__}",
        inputs=tuple(describe_file(path) for path in (*files, corpus) if path and path.is_file()),
    )
    return replace(dataset, card=card)


def fetch_published_files(name: str, folder: Path, *, on_file: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Download the published files of a format from the Hugging Face hub into a folder; return their paths.

    Files that are there already are kept; `on_file` is called with a line for each that is downloaded.
    """
    published = find_format(name)
    hub = published.hub
    if hub is None:
        raise DataError(
            f"{published.title} is not on the hub in its published form.",
            remedy=f"Take {published.expects} from {published.source}, then 'beliefrag data import {name} FILE...'.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        names: Iterable[str] = hub.files
        if not hub.files:
            listed = list_files(hub.repository, hub.revision, "dataset")
            # The list comes from outside: only names of plain words and slashes become paths.
            names = [each for each in listed if each.endswith(hub.ending) and _PLAIN_NAME.fullmatch(each)]
        paths = []
        for file in names:
            if not (folder / file).exists():
                on_file(f"Getting {file} of {hub.repository}")
                download_file(HubFile(hub.repository, file, hub.revision, "dataset"), folder)
            paths.append(folder / file)
        return paths
    except DownloadError as error:
        raise DataError(
            error.message,
            remedy="Check the network and HF_ENDPOINT; or get the files elsewhere and use 'beliefrag data import'.",
        ) from None
