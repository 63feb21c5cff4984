"""What a published format is: how it is told, read and credited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import BadRecord, Entry
from beliefrag.bench.datasets.records import Problem, Record, read_records

__all__ = ["Format", "HubFiles", "per_record"]

Reader = Callable[[Sequence[Path]], Iterator[Entry | Problem]]


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files of a dataset repository on the Hugging Face hub that are in the published form."""

    repository: str
    files: tuple[str, ...] = ()
    every: str = ""
    """In place of names: take every file whose name ends so."""
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class Format:
    """One published format."""

    name: str
    title: str
    licence: str
    source: str
    """Where the files are published, for people."""
    expects: str
    """What to give it, for people."""
    read: Reader
    hub: HubFiles | None = None
    notes: tuple[str, ...] = ()


def per_record(
    entry: Callable[[Mapping[str, Any], Path], Entry],
    records: Callable[[Path], Iterator[Record | Problem]] = read_records,
) -> Reader:
    """A reader for formats in which one record is one question."""

    def read(files: Sequence[Path]) -> Iterator[Entry | Problem]:
        for path in files:
            for record in records(path):
                if isinstance(record, Problem):
                    yield record
                    continue
                try:
                    yield replace(entry(record.data, path), place=record.place)
                except BadRecord as error:
                    yield Problem(record.place, str(error))

    return read
