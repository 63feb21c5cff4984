"""Published dataset formats: how each is credited, and how its files become questions and passages.

A format is one call of `register_format`, in a module of ours or of another package:

    MY_FORMAT = register_format(DatasetFormat(name="my_set", title="My set", ..., read=reader_of(_Card, _read_card)))

    [project.entry-points."beliefrag.datasets"]
    my_set = "my_package.my_set"

A record that cannot be read is a `DataError` with its line or number. JSON, JSON Lines and tables are recognised by
what is in the file, because published names mislead: RGB's `.json` holds lines.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from beliefrag.bench.questions import Gold, LabelledQuestion
from beliefrag.registry import NoOptions, Registry
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage, Question

_HERE = "beliefrag.bench.datasets"
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_MAX_SHOWN = 240
"""Characters of a table's first line that a message shows."""
_MAX_CELL = 100_000_000
"""Characters that one cell of a table may have."""
_SPLIT = re.compile(r"(?<![a-z])(train|dev|validation|valid|test)(?![a-z])", re.IGNORECASE)


class BadRecord(Exception):
    """A record does not follow the format; the message is the reason."""


class PublishedRecord(BaseModel):
    """The fields of a published record that are read. Numbers become texts where a text is expected."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True, extra="allow")

    def labels(self, *names: str) -> dict[str, Any]:
        """Return those of these fields that the record has, as labels."""
        return {name: value for name in names if (value := getattr(self, name, None)) is not None}


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _grouped(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
AnswerGroups = Annotated[
    tuple[Annotated[tuple[str, ...], BeforeValidator(_listed), Field(min_length=1)], ...], BeforeValidator(_grouped)
]
"""The parts of an answer; a part that is a list has several spellings."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """One record, with its file and its line or number."""

    place: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """One question with its own passages."""

    question: LabelledQuestion
    passages: tuple[Passage, ...] = ()


def passage_id(title: str, body: str) -> str:
    """Return the id of a passage, made from its words: the same passage has the same id in every import."""
    return "p" + hashlib.sha1(f"{title}\n{body}".encode("utf-8", "replace"), usedforsecurity=False).hexdigest()[:14]


def question_id(prefix: str, asked: str) -> str:
    """Return an id made from the words of a question: it stays the same when a file is cut or grows."""
    return prefix + hashlib.sha1(" ".join(asked.split()).encode(), usedforsecurity=False).hexdigest()[:14]


def make_passage(title: str, body: str) -> Passage:
    """Return a passage with single spaces and an id made from its words."""
    title, body = " ".join(title.split()), " ".join(body.split())
    return Passage(passage_id(title, body), title, body)


def make_question(
    identifier: str,
    question: str,
    answers: Iterable[str],
    supporting: Iterable[str] | None = None,
    *,
    groups: Sequence[Sequence[str]] = (),
    fake_answer: str | None = None,
    is_set: bool = False,
    labels: Mapping[str, Any] | None = None,
) -> LabelledQuestion:
    """Return a question with its gold answers."""
    golds = _unique(answer.strip() for answer in answers)
    if not identifier or not question.strip():
        raise BadRecord("has no question" if identifier else "has no id")
    if not golds:
        raise BadRecord("has no gold answer (test splits are published without)")
    gold = Gold(
        golds,
        None if supporting is None else _unique(supporting),
        tuple(tuple(group) for group in groups),
        fake_answer,
        is_set,
        labels or {},
    )
    return LabelledQuestion(Question(question.strip(), identifier), gold)


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value for value in values if value))


def split_in_name(path: Path) -> str:
    """Return the split that a file's name contains, or an empty string."""
    found = _SPLIT.search(name_without_gz(path).replace("_", " "))
    return {"validation": "dev", "valid": "dev"}.get(found[0].lower(), found[0].lower()) if found else ""


def name_without_gz(path: Path) -> str:
    """Return the file's name without `.gz`."""
    return path.name.removesuffix(".gz")


def _read_unpacked(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"{path} cannot be read: {reason}.", remedy="Check the name, or download it again.") from None
    return content.removeprefix(_BOM)


def read_records(path: Path) -> Iterator[RawRecord]:
    """Read the records of a JSON or JSON Lines file: a list, an object with the list under `Data`, or lines."""
    content = _read_unpacked(path)
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("Data"), list):
        whole = whole["Data"]
    if not isinstance(whole, list):
        yield from _parse_lines(content, path.name)
        return
    for number, data in enumerate(whole, 1):
        yield _check_record(f"{path.name} record {number}", data)


def read_json_lines(path: Path) -> Iterator[RawRecord]:
    """Yield the records of a file with one JSON object per line."""
    yield from _parse_lines(_read_unpacked(path), path.name)


def read_table(path: Path, *, delimiter: str, required_column: str | None = None) -> Iterator[RawRecord]:
    """Yield the rows of a delimited table by the names in its first line."""
    content = _read_unpacked(path)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{path.name} line {line} is not UTF-8 text.", remedy="Is this the right file?") from None
    csv.field_size_limit(_MAX_CELL)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = next(rows, None)
        if not names:
            raise DataError(f"{path.name} is empty.", remedy="Download it again.")
        if required_column is not None and required_column not in names:
            found = ", ".join(map(repr, names))[:_MAX_SHOWN]
            raise DataError(f"{path.name} has no column {required_column!r}: its columns are {found}.")
        for row in rows:
            place = f"{path.name} line {rows.line_num}"
            if len(row) == len(names):
                yield RawRecord(place, dict(zip(names, row, strict=True)))
            elif row:
                raise _bad_record(place, f"has {len(row)} columns, not {len(names)}")
    except csv.Error as error:
        raise DataError(
            f"{path.name} line {rows.line_num} is not a table: {error}.", remedy="Download it again."
        ) from None


def _parse_lines(content: bytes, name: str) -> Iterator[RawRecord]:
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        place = f"{name} line {number}"
        try:
            data = json.loads(line)
        except UnicodeDecodeError:
            raise _bad_record(place, "is not UTF-8 text") from None
        except (ValueError, RecursionError) as error:
            raise _bad_record(place, f"is not JSON ({error})") from None
        yield _check_record(place, data)


def _check_record(place: str, data: Any) -> RawRecord:
    if not isinstance(data, dict):
        raise _bad_record(place, "is not a JSON object")
    return RawRecord(place, data)


def _bad_record(place: str, reason: str) -> DataError:
    return DataError(f"{place}: {reason}.", remedy="Correct this record or remove it, or get the file again.")


_R = TypeVar("_R", bound=BaseModel)
_T = TypeVar("_T")


def read_each(records: Iterable[RawRecord], form: type[_R], make: Callable[[_R], _T]) -> Iterator[_T]:
    """Make something of each record of a form. The first record that is not of the form is a `DataError`."""
    for record in records:
        try:
            yield make(form.model_validate(record.data))
        except BadRecord as error:
            raise _bad_record(record.place, str(error)) from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = str(first["loc"][0]) if first["loc"] else ""
            reason = f"has no {name!r}" if first["type"] == "missing" else f"has an invalid {name!r}: {first['msg']}"
            raise _bad_record(record.place, reason) from None


Reader = Callable[[Sequence[Path]], Iterator[DatasetEntry]]


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files of a dataset repository on the Hugging Face hub that are in the published form."""

    repository: str
    files: tuple[str, ...] = ()
    ending: str = ""
    """Instead of names: take every file whose name ends like this."""
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class DatasetFormat:
    """One published format."""

    name: str
    title: str
    licence: str
    source: str
    """Where the files are published, for people."""
    expects: str
    """Which files to give, for people."""
    read: Reader
    """Reads files: yields each question with its passages."""
    hub: HubFiles | None = None
    notes: tuple[str, ...] = ()


DATASET_FORMATS: Registry[DatasetFormat, None] = Registry(
    "dataset format",
    "beliefrag.datasets",
    dict.fromkeys(("hotpotqa", "2wikimultihopqa", "musique", "nq", "triviaqa", "popqa", "rgb"), f"{_HERE}.published")
    | {"holobench": f"{_HERE}.holobench"},
)


def register_format(published: DatasetFormat) -> DatasetFormat:
    """Register a format and return it."""

    def build(options: NoOptions, inputs: None) -> DatasetFormat:
        return published

    build.__module__ = published.read.__module__
    summary = f"Reads {published.expects}, published at {published.source}."
    DATASET_FORMATS.register(published.name, title=published.title, summary=summary)(build)
    return published


def register_described(readers: Mapping[str, Reader]) -> None:
    """Register formats of ours, which `published.toml` describes, with what reads each."""
    for about in tomllib.loads(files(__package__).joinpath("published.toml").read_text("utf-8"))["formats"]:
        if (read := readers.get(about["name"])) is not None:
            register_format(TypeAdapter(DatasetFormat).validate_python({**about, "read": read}))


def find_format(name: str) -> DatasetFormat:
    """Return the format of this name."""
    return DATASET_FORMATS[name].build(NoOptions(), None)


def all_formats() -> tuple[DatasetFormat, ...]:
    """Return every format that can be used here, ours first."""
    return tuple(extension.build(NoOptions(), None) for extension in DATASET_FORMATS.usable())


def reader_of(
    form: type[_R],
    make: Callable[[_R, Path], DatasetEntry],
    records: Callable[[Path], Iterator[RawRecord]] = read_records,
) -> Reader:
    """Return a reader for formats in which one record is one question.

    A record is validated as `form`, and `make` makes its entry; it raises `BadRecord` if it is not of the format.
    """

    def read(files: Sequence[Path]) -> Iterator[DatasetEntry]:
        for path in files:

            def make_entry(record: _R, path: Path = path) -> DatasetEntry:
                return make(record, path)

            yield from read_each(records(path), form, make_entry)

    read.__module__ = make.__module__
    return read
