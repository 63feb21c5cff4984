"""Benchmarks: questions with gold answers, what an episode scored, and how sure those numbers are."""

from __future__ import annotations

from beliefrag.bench.errors import DataError
from beliefrag.bench.partitions import Partition, partition, sample
from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion

__all__ = ["DataError", "Dataset", "Gold", "LabelledQuestion", "Partition", "partition", "sample"]
