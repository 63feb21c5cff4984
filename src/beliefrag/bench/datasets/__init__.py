"""Benchmarks on disk: reads published formats, and writes and loads one common form."""

from __future__ import annotations

from beliefrag.bench.datasets.common_form import (
    fetch_published_files,
    import_dataset,
    is_dataset,
    load_dataset,
    load_passages,
)
from beliefrag.bench.datasets.formats import DATASET_FORMATS, DatasetFormat, all_formats, find_format, register_format

__all__ = [
    "DATASET_FORMATS",
    "DatasetFormat",
    "all_formats",
    "fetch_published_files",
    "find_format",
    "import_dataset",
    "is_dataset",
    "load_dataset",
    "load_passages",
    "register_format",
]
