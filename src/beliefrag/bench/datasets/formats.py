"""The registered dataset formats: how each published form is read and credited.

A format is one call of `register_format`, in a module of ours or of another package:

    MY_FORMAT = register_format(DatasetFormat(name="my_set", title="My set", ..., read=reader_of(_read_question)))

    [project.entry-points."beliefrag.datasets"]
    my_set = "my_package.my_set"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.dataset_entry import BadRecord, DatasetEntry
from beliefrag.bench.datasets.records import Problem, Record, read_records
from beliefrag.registry import NoOptions, Registry

__all__ = [
    "DATASET_FORMATS",
    "DatasetFormat",
    "HubFiles",
    "all_formats",
    "find_format",
    "reader_of",
    "register_format",
]

Reader = Callable[[Sequence[Path]], Iterator[DatasetEntry | Problem]]
_HERE = "beliefrag.bench.datasets"


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
    """How it is chosen on the command line."""
    title: str
    licence: str
    source: str
    """Where the files are published, for people."""
    expects: str
    """Which files to give, for people."""
    read: Reader
    """Reads files: gives each question with its passages, and a `Problem` for each record that cannot be read."""
    hub: HubFiles | None = None
    notes: tuple[str, ...] = ()


DATASET_FORMATS: Registry[DatasetFormat, None] = Registry(
    "dataset format",
    "beliefrag.datasets",
    {
        "hotpotqa": f"{_HERE}.hotpotqa",
        "2wikimultihopqa": f"{_HERE}.hotpotqa",
        "musique": f"{_HERE}.musique",
        "nq": f"{_HERE}.open_domain",
        "triviaqa": f"{_HERE}.triviaqa",
        "popqa": f"{_HERE}.open_domain",
        "rgb": f"{_HERE}.rgb",
        "holobench": f"{_HERE}.holobench",
    },
)


def register_format(published: DatasetFormat) -> DatasetFormat:
    """Registers a format and returns it.

    Raises:
        SettingsError: Another format has that name.
    """

    def build(options: NoOptions, inputs: None) -> DatasetFormat:
        return published

    build.__module__ = published.read.__module__
    summary = f"Reads {published.expects}, published at {published.source}."
    DATASET_FORMATS.register(published.name, title=published.title, summary=summary)(build)
    return published


def find_format(name: str) -> DatasetFormat:
    """Gives the format of this name.

    Raises:
        SettingsError: There is none, or the package that offers it cannot be used.
    """
    return DATASET_FORMATS[name].build(NoOptions(), None)


def all_formats() -> tuple[DatasetFormat, ...]:
    """Gives every format that can be used here, ours first."""
    return tuple(extension.build(NoOptions(), None) for extension in DATASET_FORMATS.usable())


def reader_of(
    read_question: Callable[[Mapping[str, Any], Path], DatasetEntry],
    records: Callable[[Path], Iterator[Record | Problem]] = read_records,
) -> Reader:
    """Gives a reader for formats in which one record is one question.

    Args:
        read_question: Reads one record of a file. It raises `BadRecord` where the record is not of the format.
        records: Reads the records of a file; by default JSON or JSON Lines.
    """

    def read(files: Sequence[Path]) -> Iterator[DatasetEntry | Problem]:
        for path in files:
            for record in records(path):
                if isinstance(record, Problem):
                    yield record
                    continue
                try:
                    yield replace(read_question(record.data, path), place=record.place)
                except BadRecord as error:
                    yield Problem(record.place, str(error))

    read.__module__ = read_question.__module__
    return read
