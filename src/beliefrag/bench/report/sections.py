"""What a report on paper holds, as plain tables: the forms (Markdown, LaTeX, HTML) only write them down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beliefrag.bench.published import MARK, published_tables
from beliefrag.bench.report.table import interval, number, outcomes
from beliefrag.bench.summary import MEAN, MEASURES, Cell, Summary
from beliefrag.methods import TITLES

__all__ = ["Section", "provenance", "sections"]

_BY_DATASET = ("f1", "exact_match", "cover", "judge", "evidence_recall", "answer_row_recall", "tokens")
_COSTS = ("rounds", "actions", "calls", "tokens_in", "tokens_out", "seconds")


@dataclass(frozen=True, slots=True)
class Section:
    """One table with its heading and a line about it."""

    title: str
    note: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sections(summary: Summary) -> Iterator[Section]:
    """All tables of a report, in their order."""
    datasets = list(dict.fromkeys(cell.dataset for cell in summary.cells))
    cells = {(cell.dataset, cell.method): cell for cell in summary.cells}
    methods = list(dict.fromkeys(cell.method for cell in summary.cells))
    for measure in _BY_DATASET:
        if any(cell.measures[measure] is not None for cell in summary.cells):
            yield Section(
                f"{MEASURES[measure]} by dataset",
                "Mean over questions with its 95 % bootstrap interval; ? marks an interval on fewer than 20 questions.",
                ("method", *datasets),
                tuple((TITLES[m], *(_with_interval(measure, cells[d, m]) for d in datasets)) for m in methods),
            )
    yield Section(
        "Effort",
        "Means per question. Seconds are those of the model when it made the replies. The judge is in none of them.",
        ("dataset", "method", *(MEASURES[name] for name in _COSTS)),
        tuple((c.dataset, TITLES[c.method], *(number(n, c.measures[n]) for n in _COSTS)) for c in summary.cells),
    )
    purposes = sorted({purpose for cell in summary.cells for purpose in cell.calls_by_purpose})
    yield Section(
        "Calls by purpose",
        "Model calls per question.",
        ("dataset", "method", *(purpose.replace("_", " ") for purpose in purposes)),
        tuple(
            (c.dataset, TITLES[c.method], *(f"{c.calls_by_purpose.get(purpose, 0.0):.2f}" for purpose in purposes))
            for c in summary.cells
        ),
    )
    yield Section(
        "Outcomes",
        "Episodes answered/stopped/abstained/failed. A failed one is in no mean.",
        ("method", *(dataset for dataset in datasets if dataset != MEAN)),
        tuple((TITLES[m], *(outcomes(cells[d, m]) for d in datasets if d != MEAN)) for m in methods),
    )
    yield from _published(datasets, methods)


def _published(datasets: Sequence[str], methods: Sequence[str]) -> Iterator[Section]:
    for table in published_tables().values():
        shared = [dataset for dataset in table.datasets if dataset in datasets]
        theirs = [method for method in methods if method in table.rows]
        if table.metric in ("f1", "tokens") and shared and theirs:
            yield Section(
                f"Theirs: {MEASURES[table.metric]} with {table.backbone}",
                f"{table.what}, {MARK} ({table.unit}, {table.n} questions for each dataset). "
                "Another model and other questions: not comparable with the numbers above, cell by cell.",
                ("method", *shared),
                tuple((TITLES[m], *(_printed(table.value(m, dataset)) for dataset in shared)) for m in theirs),
            )


def provenance(summary: Summary) -> list[tuple[str, str]]:
    """Where the numbers come from."""
    run = summary.run
    lines = [
        ("begun", run.made),
        ("model", run.model),
        ("judge", run.judge or "none"),
        ("verifier form", run.verifier),
        ("calibration", f"{run.calibration.name} {run.calibration.sha256[:16]}" if run.calibration else "none"),
        ("retriever", run.retriever),
        ("budget", ", ".join(f"{name} {value}" for name, value in run.budget.items())),
        ("seed", str(run.seed)),
        ("versions", ", ".join(f"{name} {value}" for name, value in run.versions.items())),
        (
            "judge tokens",
            f"{sum(c.judge_tokens for c in summary.cells if c.dataset != MEAN):,} in all, in no method's cost",
        ),
    ]
    for name, dataset in run.datasets.items():
        words = f"{len(dataset.question_ids):,} questions, {dataset.passages:,} passages, corpus {dataset.fingerprint}"
        lines.append((f"dataset {name}", f"{words}{f', {dataset.licence}' if dataset.licence else ''}"))
    lines += [(f"prompt {name}", digest) for name, digest in run.prompts.items()]
    return lines


def _with_interval(measure: str, cell: Cell) -> str:
    estimate = cell.measures[measure]
    words = number(measure, estimate)
    return words if estimate is None or estimate.low is None else f"{words} ({interval(measure, estimate)})"


def _printed(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
