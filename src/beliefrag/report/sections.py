"""What a report on paper holds, as plain tables: the forms (Markdown, LaTeX, HTML) only write them down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from beliefrag.bench.money import in_dollars
from beliefrag.methods import METHODS
from beliefrag.models.prices import price_of
from beliefrag.report.means import rests_on_some
from beliefrag.report.published import MARK, published_tables
from beliefrag.report.table import interval, number, outcomes, questions
from beliefrag.runs.cells import MEAN, MEASURES, Cell
from beliefrag.runs.summary import Failures, Summary
from beliefrag.types import Usage

__all__ = ["Section", "costs", "provenance", "sections"]

_BY_DATASET = (
    "f1",
    "exact_match",
    "cover",
    "judge",
    "follows_false",
    "recovers_true",
    "evidence_recall",
    "answer_row_recall",
    "tokens",
)
_SHOWN = 5
"""Ids of failed questions that are written out for each cause."""
_MESSAGE = 160
"""Characters of a failure's message that are written out."""
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
                _about(measure, summary),
                ("method", *datasets),
                tuple((METHODS.title(m), *(_with_interval(measure, cells[d, m]) for d in datasets)) for m in methods),
            )
    if any(cell.episodes for cell in summary.cells):
        yield from _efforts(summary)
    yield Section(
        "Outcomes",
        "Episodes answered/stopped/abstained/failed. A failed one is in no mean.",
        ("method", *(dataset for dataset in datasets if dataset != MEAN)),
        tuple((METHODS.title(m), *(outcomes(cells[d, m]) for d in datasets if d != MEAN)) for m in methods),
    )
    if summary.failures:
        yield Section(
            "Failed episodes",
            "By cause. None of them is in a mean; the command of the run tries them again.",
            ("cause", "dataset", "method", "episodes", "questions", "what the first one says"),
            tuple(
                (f.cause, f.dataset, METHODS.title(f.method), str(len(f.question_ids)), _ids(f), _said(f))
                for f in summary.failures
            ),
        )
    yield from _published(summary)


def _efforts(summary: Summary) -> Iterator[Section]:
    yield Section(
        "Effort",
        "Means per question. Seconds are those of the model when it made the replies. The judge is in none of them.",
        ("dataset", "method", "n", *(MEASURES[name] for name in _COSTS)),
        tuple(
            (c.dataset, METHODS.title(c.method), questions(c), *(number(n, c.measures[n]) for n in _COSTS))
            for c in summary.cells
        ),
    )
    purposes = sorted({purpose for cell in summary.cells for purpose in cell.calls_by_purpose})
    yield Section(
        "Calls by purpose",
        "Model calls per question.",
        ("dataset", "method", *(purpose.replace("_", " ") for purpose in purposes)),
        tuple(
            (c.dataset, METHODS.title(c.method), *(_calls(c, purpose) for purpose in purposes)) for c in summary.cells
        ),
    )


def _calls(cell: Cell, purpose: str) -> str:
    # A method without any call of this purpose has made none; one without episodes, or without a mean, has no number.
    return f"{cell.calls_by_purpose.get(purpose, 0.0):.2f}" if cell.calls_by_purpose else "-"


def _about(measure: str, summary: Summary) -> str:
    words = "Mean over questions with its 95 % bootstrap interval; ? marks an interval on fewer than 20 questions."
    if any(cell.lacks_some(measure) for cell in summary.cells):
        words += " * marks a number that lacks questions that were asked."
    if over := rests_on_some(summary, measure):
        words += f" The mean is over {', '.join(over)}."
    return words


def _ids(failures: Failures) -> str:
    more = len(failures.question_ids) - _SHOWN
    return " ".join(failures.question_ids[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _said(failures: Failures) -> str:
    # A server's words can be a whole page of its own.
    words = " ".join("".join(c if c.isprintable() else " " for c in failures.message).split())
    return words if len(words) <= _MESSAGE else f"{words[:_MESSAGE]}…"


def _published(summary: Summary) -> Iterator[Section]:
    """Every table of theirs that has a dataset, a method and a measure of the run."""
    known = {dataset for table in published_tables().values() for dataset in table.datasets}
    for table in published_tables().values():
        # A table without datasets prints the mean over all of them alone.
        own = [
            cell
            for cell in summary.cells
            if cell.dataset in (table.datasets or known)
            and cell.method in table.rows
            and cell.measures[table.metric] is not None
        ]
        shared = [dataset for dataset in table.datasets if dataset in {cell.dataset for cell in own}]
        whole = set(table.datasets) <= set(shared) and any(row.mean is not None for row in table.rows.values())
        if own:
            yield Section(
                f"Theirs: {MEASURES[table.metric]} with {table.backbone}",
                f"{table.what}, {MARK} ({table.unit}, {table.n} questions for each dataset). "
                "Another model and other questions: not comparable with the numbers above, cell by cell.",
                ("method", *shared, *([MEAN] if whole else [])),
                tuple(
                    (
                        METHODS.title(method),
                        *(_printed(table.value(method, dataset)) for dataset in shared),
                        *([_printed(table.rows[method].mean)] if whole else []),
                    )
                    for method in dict.fromkeys(cell.method for cell in own)
                ),
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
        ("retriever", run.searched_with),
        ("budget", ", ".join(f"{name} {value}" for name, value in run.budget.items())),
        ("seed", str(run.seed)),
        ("versions", _versions(run.versions)),
        *(("later versions", _versions(each)) for each in run.later_versions),
        *costs(summary),
    ]
    for name, dataset in run.datasets.items():
        words = f"{len(dataset.question_ids):,} questions, {dataset.passages:,} passages, corpus {dataset.fingerprint}"
        lines.append((f"dataset {name}", f"{words}{f', {dataset.licence}' if dataset.licence else ''}"))
    lines += [(f"prompt {name}", digest) for name, digest in run.prompts.items()]
    return lines


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in versions.items())


def costs(summary: Summary) -> list[tuple[str, str]]:
    """What all finished episodes took, and in money where a price is known; the judge's apart."""
    run = summary.run
    money = in_dollars(run.model, run.price or price_of(run.model), summary.spent)
    lines = [("cost", f"{_amount(summary.spent)}; {money}")]
    if run.judge:
        money = in_dollars(run.judge, run.judge_price or price_of(run.judge), summary.judge_spent)
        lines.append(("cost of the judge", f"{_amount(summary.judge_spent)}, in no method's cost; {money}"))
    return lines


def _amount(usage: Usage) -> str:
    return f"{usage.calls:,} calls, {usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"


def _with_interval(measure: str, cell: Cell) -> str:
    estimate = cell.measures[measure]
    words = number(measure, estimate)
    if estimate is not None and cell.lacks_some(measure):
        words += "*"
    return words if estimate is None or estimate.low is None else f"{words} ({interval(measure, estimate)})"


def _printed(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
