"""Benchmarks on disk: published formats in, one common form out."""

from __future__ import annotations

from beliefrag.bench.datasets.catalogue import FORMATS, format_named
from beliefrag.bench.datasets.common_form import is_dataset, load_dataset, load_passages
from beliefrag.bench.datasets.importing import import_dataset

__all__ = ["FORMATS", "format_named", "import_dataset", "is_dataset", "load_dataset", "load_passages"]
