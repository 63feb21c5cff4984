"""Benchmarks: questions with gold answers, what an episode scored, and how sure those numbers are."""

from __future__ import annotations

from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion
from beliefrag.runs.errors import DataError
from beliefrag.runs.samples import Partition, partition, sample

__all__ = ["DataError", "Dataset", "Gold", "LabelledQuestion", "Partition", "partition", "sample"]
