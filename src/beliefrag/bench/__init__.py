"""Benchmarks: run methods on questions with gold answers, report their numbers with intervals, compare two methods.

    from beliefrag import bench

    spec = bench.RunSpec(data=("data/hotpotqa",), methods=("static", "beliefrag"), n=100)
    print(bench.preview(spec, out="runs/first"))
    run = bench.run(spec, out="runs/first", progress=lambda p: print(p.done, "of", p.plan.left))
    bench.report("runs/first").to_pandas()
    bench.compare("runs/first", "beliefrag", "static").table

Each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beliefrag.bench.benchmark import (
        PreparedRun,
        Preview,
        Run,
        RunProgress,
        carry_out,
        carry_out_async,
        prepare_run,
        preview,
        run,
        user_dataset,
    )
    from beliefrag.bench.datasets import fetch_published_files, import_dataset, load_dataset
    from beliefrag.bench.plan import Plan
    from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion
    from beliefrag.bench.results import MethodComparison, Report, compare, report
    from beliefrag.bench.runner import RunControl, Tally
    from beliefrag.bench.setup import RunSpec, choose_methods
    from beliefrag.runs.partitions import Partition, partition, sample
    from beliefrag.runs.record import Injection
    from beliefrag.runs.run_errors import DataError

__all__ = [
    "DataError",
    "Dataset",
    "Gold",
    "Injection",
    "LabelledQuestion",
    "MethodComparison",
    "Partition",
    "Plan",
    "PreparedRun",
    "Preview",
    "Report",
    "Run",
    "RunControl",
    "RunProgress",
    "RunSpec",
    "Tally",
    "carry_out",
    "carry_out_async",
    "choose_methods",
    "compare",
    "fetch_published_files",
    "import_dataset",
    "load_dataset",
    "partition",
    "prepare_run",
    "preview",
    "report",
    "run",
    "sample",
    "user_dataset",
]

_HOMES = {
    "bench.datasets": ["fetch_published_files", "import_dataset", "load_dataset"],
    "bench.plan": ["Plan"],
    "bench.questions": ["Dataset", "Gold", "LabelledQuestion"],
    "bench.results": ["MethodComparison", "Report", "compare", "report"],
    "bench.runner": ["RunControl", "Tally"],
    "bench.setup": ["RunSpec", "choose_methods"],
    "runs.run_errors": ["DataError"],
    "runs.record": ["Injection"],
    "runs.partitions": ["Partition", "partition", "sample"],
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'beliefrag.bench' has no attribute {name!r}")
    return getattr(import_module(f"beliefrag.{_HOME.get(name, 'bench.benchmark')}"), name)
