"""The paper's own numbers as data, to set a run beside them. They are theirs, not ours.

Every value is as printed in the paper, to its last digit. Methods and datasets have the names of our own tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from pydantic import BaseModel, ConfigDict, TypeAdapter

__all__ = ["MARK", "PublishedNumber", "PublishedRow", "PublishedTable", "published_numbers", "published_tables"]

MARK = "as printed in the BeliefRAG paper"
"""What a report writes beside each of these numbers."""


class _Printed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PublishedRow(_Printed):
    """One method's values, in the order of the table's datasets; None for a dash."""

    values: tuple[float | None, ...]
    mean: float | None


class PublishedTable(_Printed):
    """One metric of one backbone."""

    id: str
    label: str
    """The table in the paper's source."""
    backbone: str
    metric: str
    unit: str
    n: int
    """Questions for each dataset."""
    what: str
    datasets: tuple[str, ...]
    rows: Mapping[str, PublishedRow]

    def value(self, method: str, dataset: str) -> float | None:
        """Return one cell; None where the paper has none."""
        row = self.rows.get(method)
        return row.values[self.datasets.index(dataset)] if row and dataset in self.datasets else None


class PublishedNumber(_Printed):
    """One number that the paper's text or a caption gives for a study."""

    id: str
    study: str
    what: str
    value: float


@cache
def published_tables() -> Mapping[str, PublishedTable]:
    """Return all tables by their id, such as `gpt_oss_f1` or `qwen_tokens`."""
    return {each.id: each for each in TypeAdapter(tuple[PublishedTable, ...]).validate_json(_read("tables.json"))}


@cache
def published_numbers() -> Mapping[str, PublishedNumber]:
    """Return all numbers of the studies by their id."""
    return {each.id: each for each in TypeAdapter(tuple[PublishedNumber, ...]).validate_json(_read("figures.json"))}


def _read(name: str) -> bytes:
    return resources.files(__package__).joinpath(name).read_bytes()
