"""Benchmarks: run methods on questions with gold answers, report their numbers with intervals, compare two methods.

from beliefrag import bench

spec = bench.RunSpec(data=("data/hotpotqa",), methods=("static", "beliefrag"), n=100)
print(bench.preview(spec, out="runs/first"))
run = bench.run(spec, out="runs/first", progress=lambda p: print(p.done, "of", p.plan.left))
bench.report("runs/first").tables[0].to_pandas()
print(bench.compare("runs/first", "beliefrag", "static"))
"""

from beliefrag.bench.benchmark import (
    PreparedRun,
    Preview,
    Result,
    Run,
    RunProgress,
    carry_out,
    check_answers,
    compare,
    prepare_run,
    preview,
    report,
    run,
    user_dataset,
)
from beliefrag.bench.datasets import fetch_published_files, import_dataset, load_dataset
from beliefrag.bench.plan import Plan
from beliefrag.bench.questions import Dataset, Gold, LabelledQuestion
from beliefrag.bench.runner import Tally
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
    "Partition",
    "Plan",
    "PreparedRun",
    "Preview",
    "Result",
    "Run",
    "RunProgress",
    "RunSpec",
    "Tally",
    "carry_out",
    "check_answers",
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
