"""The report on a run: its tables and where its numbers come from, in all formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from beliefrag.methods import METHODS, find_profile, needs_calibration
from beliefrag.models.cost import price_of
from beliefrag.policy import Thresholds
from beliefrag.report.figure import MARKERS, CostPanel, CostPoint, draw_quality_against_tokens, figure_svg, open_figure
from beliefrag.report.page import Block, Drawing, Heading, Page, Paragraph
from beliefrag.report.published import MARK, published_tables
from beliefrag.report.table import Table
from beliefrag.runs.record import RunRecord, in_dollars
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.statistics import Estimate, pareto_front
from beliefrag.runs.summary import MEAN, MEASURES, PURPOSE_COSTS, Cell, Failures, Summary
from beliefrag.types import Usage

__all__ = [
    "REPORT_FILES",
    "cost_lines",
    "format_interval",
    "mean_notes",
    "provenance",
    "report_page",
    "report_tables",
    "results_table",
    "tidy_csv",
    "write_report",
]

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
_SHOWN_IDS = 5
"""Ids of failed questions that are written out for each cause."""
_MESSAGE_LENGTH = 160
"""Characters of a failure's message that are written out."""
_COSTS = ("rounds", "actions", "calls", "tokens_in", "tokens_out", "seconds")
_OUTCOMES = ("answered", "stopped", "abstained", "failed")
_WHOLE = ("tokens", "tokens_in", "tokens_out")
_FEW_DIGITS = ("rounds", "actions", "calls", "seconds")
_ABOUT_FIGURE = "Means over datasets, with 95 % intervals. A method without such a mean has no point."


def write_report(summary: Summary, folder: Path) -> list[Path]:
    """Writes all forms of the report into a folder, over those of an earlier one.

    Raises:
        RunError: They cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, form in REPORT_FILES.items():
            (folder / name).write_text(form(summary), encoding="utf-8")
    except OSError as error:
        raise RunError(f"The report cannot be written to {folder}: {error.strerror}.") from error
    return [folder / name for name in REPORT_FILES]


def results_table(summary: Summary) -> Table:
    """Makes the table that everybody looks at first: a row for each dataset and method."""
    first = ("exact_match", "f1")
    more = ("cover", "judge", "evidence_recall", "answer_row_recall", *_COSTS)
    headings = ("dataset", "method", "n", *(MEASURES[name] for name in first), "F1 95 %")
    rows = [
        (
            cell.dataset,
            METHODS.title(cell.method),
            _count_questions(cell),
            *(_format_mean(name, cell.measures[name]) for name in first),
            format_interval("f1", cell.measures["f1"]),
            *(_format_mean(name, cell.measures[name]) for name in more),
            _count_outcomes(cell),
        )
        for cell in summary.cells
    ]
    headings = (*headings, *(MEASURES[name] for name in more), "/".join(_OUTCOMES))
    return Table.of_texts("results", "Results", headings, rows)


def report_page(summary: Summary, *, with_figure: bool = True) -> Page:
    """Makes the page of a report: the figure if wanted, all tables, and where the numbers come from."""
    blocks: list[Block] = []
    if with_figure and (figure := _draw_methods(summary)):
        about = _ABOUT_FIGURE
        if over := _datasets_of_mean(summary, "f1"):
            about += f" Both numbers are over {', '.join(over)}."
        blocks += [Heading("F1 against tokens"), Paragraph(about), figure]
    for table in report_tables(summary):
        blocks += [Heading(table.title), replace(table, title="")]
    blocks += [Heading("Provenance"), Table.of_texts("provenance", "", ("what", "which"), provenance(summary))]
    return Page("Benchmark report", tuple(blocks), status=summary.first_line, complete=summary.complete)


def report_tables(summary: Summary) -> Iterator[Table]:
    """Gives all tables of a report, in their order."""
    datasets = list(dict.fromkeys(cell.dataset for cell in summary.cells))
    cells = {(cell.dataset, cell.method): cell for cell in summary.cells}
    methods = list(dict.fromkeys(cell.method for cell in summary.cells))
    for measure in _BY_DATASET:
        if any(cell.measures[measure] is not None for cell in summary.cells):
            yield Table.of_texts(
                measure,
                f"{MEASURES[measure]} by dataset",
                ("method", *datasets),
                [(METHODS.title(m), *(_format_with_interval(measure, cells[d, m]) for d in datasets)) for m in methods],
                _describe_measure(measure, summary),
            )
    if any(cell.episodes for cell in summary.cells):
        yield from _effort_tables(summary)
    single = [dataset for dataset in datasets if dataset != MEAN]
    yield Table.of_texts(
        "outcomes",
        "Outcomes",
        ("method", *single),
        [(METHODS.title(m), *(_count_outcomes(cells[d, m]) for d in single)) for m in methods],
        "Episodes answered/stopped/abstained/failed. A failed one is in no mean.",
    )
    if summary.failures:
        yield Table.of_texts(
            "failures",
            "Failed episodes",
            ("cause", "dataset", "method", "episodes", "questions", "what the first one says"),
            [
                (
                    f.cause,
                    f.dataset,
                    METHODS.title(f.method),
                    str(len(f.question_ids)),
                    _list_ids(f),
                    _shorten_message(f),
                )
                for f in summary.failures
            ],
            "By cause. None of them is in a mean; the command of the run tries them again.",
        )
    yield from _published_tables(summary)


def provenance(summary: Summary) -> list[tuple[str, str]]:
    """Says where the numbers come from: model, calibration, retriever, budget, versions, datasets and prompts."""
    run = summary.run
    lines = [
        ("begun", run.made),
        ("model", run.model),
        ("judge", run.judge or "none"),
        ("verifier form", run.verifier),
        ("calibration", ", ".join(f"{each.name} {each.sha256[:16]}" for each in run.calibrations) or "none"),
        ("retriever", run.searched_with),
        ("budget", _list_pairs(run.budget)),
        *(("thresholds of " + METHODS.title(name), words) for name, words in _describe_thresholds(run)),
        ("seed", str(run.seed)),
        ("versions", _list_pairs(run.versions)),
        *(("later versions", _list_pairs(each)) for each in run.later_versions),
        *cost_lines(summary),
    ]
    for name, dataset in run.datasets.items():
        words = f"{len(dataset.question_ids):,} questions, {dataset.passages:,} passages, corpus {dataset.fingerprint}"
        lines.append((f"dataset {name}", f"{words}{f', {dataset.licence}' if dataset.licence else ''}"))
    lines += [(f"prompt {name}", digest) for name, digest in run.prompts.items()]
    return lines


def _describe_thresholds(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Says whose thresholds each method ran with: given in the run, chosen for a guarantee, or the defaults' origin."""
    for name in run.methods:
        origin = METHODS[name].thresholds_from if name in METHODS else ""
        if not origin:
            continue
        given = [each for each in run.method_options.get(name, "").split(",") if each]
        chosen = ""
        if needs_calibration(name):
            changed = _changed_thresholds(run, name)
            if run.settings.get("max_error") is not None and (least := changed.pop("decline_below", "")):
                chosen = f"chosen to keep to max_error {run.settings['max_error']:g}: decline_below={least}; "
            given += [f"{key}={value}" for key, value in changed.items()]
        words = f"given in the run: {', '.join(given)}; " if given else ""
        yield name, f"{words}{chosen}{'otherwise ' if given or chosen else ''}{origin}"


def _changed_thresholds(run: RunRecord, method: str) -> dict[str, str]:
    profile = find_profile(method)
    own = asdict(profile.apply_to(Thresholds()) if profile else Thresholds())
    return {key: str(value) for key, value in run.setups[method].thresholds.items() if own.get(key) != value}


def cost_lines(summary: Summary) -> list[tuple[str, str]]:
    """Says what all finished episodes took, in money too where a price is known, and apart from it the judge's cost."""
    run = summary.run
    money = in_dollars(run.model, run.price or price_of(run.model), summary.spent)
    lines = [("cost", f"{_format_usage(summary.spent)}; {money}")]
    if run.judge:
        money = in_dollars(run.judge, run.judge_price or price_of(run.judge), summary.judge_spent)
        lines.append(("cost of the judge", f"{_format_usage(summary.judge_spent)}, in no method's cost; {money}"))
    return lines


def mean_notes(summary: Summary) -> Iterator[str]:
    """Gives a line for each set of datasets that some means are over, where that is not all of them."""
    names: dict[tuple[str, ...], list[str]] = {}
    for measure, heading in MEASURES.items():
        if over := _datasets_of_mean(summary, measure):
            names.setdefault(over, []).append(heading)
    for over, headings in names.items():
        yield f"the mean of {', '.join(headings)} is over {', '.join(over)} alone"


def tidy_csv(summary: Summary) -> str:
    """Gives all numbers for programs, unrounded, a line for each dataset, method and measure.

    The first line, a comment, says whether anything is missing from them.
    """
    text = io.StringIO()
    text.write(f"# {summary.first_line}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("dataset", "method", "measure", "value", "low", "high", "n", "few", "datasets"))
    for cell in summary.cells:
        place = (cell.dataset, cell.method)
        for name, estimate in cell.measures.items():
            if estimate is not None:
                low, high = ("" if side is None else side for side in (estimate.low, estimate.high))
                writer.writerow(
                    (
                        *place,
                        name,
                        estimate.value,
                        low,
                        high,
                        estimate.questions,
                        int(estimate.has_few_questions),
                        len(cell.rests_on[name]),
                    )
                )
        counts = {
            "episodes": cell.episodes,
            "missing": cell.missing,
            "failed": cell.failed,
            "unjudged": cell.unjudged,
            **{f"outcome_{name}": cell.outcomes.get(name, 0) for name in ("answered", "stopped", "abstained")},
            "judge_tokens": cell.judge_tokens,
            **({"above_cap": cell.above_cap} if cell.by_purpose else {}),
            **{f"{part}_{name}": costs[part] for part in PURPOSE_COSTS for name, costs in cell.by_purpose.items()},
        }
        for name, count in counts.items():
            writer.writerow((*place, name, count, "", "", cell.episodes, "", ""))
    return text.getvalue()


def format_interval(measure: str, estimate: Estimate | None) -> str:
    """Gives an interval; a question mark says that there are too few questions to trust it."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return "-"
    low, high = (_format_value(measure, side) for side in (estimate.low, estimate.high))
    return f"{low} to {high}{' ?' if estimate.has_few_questions else ''}"


def _write_latex(summary: Summary) -> str:
    parts = [f"% {summary.first_line}", *(table.to_latex() for table in report_tables(summary))]
    return "\n\n".join(parts) + "\n"


def _draw_methods(summary: Summary) -> Drawing | None:
    """Draws a point for each method on the mean over datasets, or on the only one; None where there is no F1.

    Both numbers of a point are over the same questions: where a dataset has no F1, its tokens do not count here.
    """
    cells = [cell for cell in summary.cells if cell.dataset == MEAN] or list(summary.cells)
    shown = [
        (cell.method, f1.without_flat_interval(), tokens.without_flat_interval())
        for cell in cells
        if (f1 := cell.measures["f1"]) is not None and (tokens := cell.tokens_beside_f1) is not None
    ]
    if not shown:
        return None
    front = pareto_front(np.array([tokens.value for _, _, tokens in shown]), np.array([f1.value for _, f1, _ in shown]))
    order = list(METHODS)
    points = tuple(
        CostPoint(METHODS.title(method), tokens, f1, MARKERS[order.index(method) % len(MARKERS)], bool(first))
        for (method, f1, tokens), first in zip(shown, front, strict=True)
    )
    titles = {
        f"point-0-{place}": f"{p.label}: F1 {p.quality.value:.3f}, {p.tokens.value:,.0f} tokens"
        for place, p in enumerate(points)
    }
    figure = open_figure((8.0, 5.0))
    draw_quality_against_tokens([CostPanel("", points)], figure)
    return Drawing(figure_svg(figure, "F1 against tokens", titles))


def _effort_tables(summary: Summary) -> Iterator[Table]:
    yield Table.of_texts(
        "effort",
        "Effort",
        ("dataset", "method", "n", *(MEASURES[name] for name in _COSTS), "above the cap"),
        [
            (
                c.dataset,
                METHODS.title(c.method),
                _count_questions(c),
                *(_format_mean(n, c.measures[n]) for n in _COSTS),
                str(c.above_cap) if c.by_purpose else "-",
            )
            for c in summary.cells
        ],
        "Means per question. Seconds are those of the model when it made the replies. The judge is in none of them. "
        "Above the cap: episodes whose calls, without the final answer, took more than "
        f"{summary.run.budget['tokens']:,} tokens. A call begins only if what it is expected to cost still fits; a "
        "longer reply can end above it.",
    )
    purposes = sorted({purpose for cell in summary.cells for purpose in cell.by_purpose})
    for name, title, form, note in (
        ("calls", "Calls by purpose", _format_calls, "Model calls per question."),
        (
            "tokens_by_purpose",
            "Tokens by purpose",
            _format_tokens,
            "Tokens in/out per question, of all calls of that purpose together.",
        ),
    ):
        yield Table.of_texts(
            name,
            title,
            ("dataset", "method", *(purpose.replace("_", " ") for purpose in purposes)),
            [
                (cell.dataset, METHODS.title(cell.method), *(form(cell, purpose) for purpose in purposes))
                for cell in summary.cells
            ],
            note,
        )


def _published_tables(summary: Summary) -> Iterator[Table]:
    """Gives every table of the paper that has a dataset, a method and a measure of the run."""
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
            yield Table.of_texts(
                table.id,
                f"Theirs: {MEASURES[table.metric]} with {table.backbone}",
                ("method", *shared, *([MEAN] if whole else [])),
                [
                    (
                        METHODS.title(method),
                        *(_format_printed(table.value(method, dataset)) for dataset in shared),
                        *([_format_printed(table.rows[method].mean)] if whole else []),
                    )
                    for method in dict.fromkeys(cell.method for cell in own)
                ],
                f"{table.what}, {MARK} ({table.unit}, {table.n} questions for each dataset). "
                "Another model and other questions: not comparable with the numbers above, cell by cell.",
            )


def _datasets_of_mean(summary: Summary, measure: str) -> tuple[str, ...]:
    """Gives the datasets that the mean of a measure is over; empty where there is no mean, or all count in it."""
    means = [cell.rests_on[measure] for cell in summary.cells if cell.dataset == MEAN and measure in cell.rests_on]
    over = tuple(dataset for dataset in summary.run.datasets if any(dataset in names for names in means))
    return over if len(over) < len(summary.run.datasets) else ()


def _describe_measure(measure: str, summary: Summary) -> str:
    words = "Mean over questions with its 95 % bootstrap interval; ? marks an interval on fewer than 20 questions."
    if any(cell.is_incomplete(measure) for cell in summary.cells):
        words += " * marks a number that lacks questions that were asked."
    if over := _datasets_of_mean(summary, measure):
        words += f" The mean is over {', '.join(over)}."
    return words


def _count_questions(cell: Cell) -> str:
    return f"{cell.episodes:,}" if cell.episodes == cell.asked else f"{cell.episodes:,} of {cell.asked:,}"


def _count_outcomes(cell: Cell) -> str:
    return "/".join(str(cell.outcomes.get(name, 0)) for name in _OUTCOMES)


def _list_ids(failures: Failures) -> str:
    more = len(failures.question_ids) - _SHOWN_IDS
    return " ".join(failures.question_ids[:_SHOWN_IDS]) + (f" and {more:,} more" if more > 0 else "")


def _list_pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _shorten_message(failures: Failures) -> str:
    # A server's words can be a whole page of its own.
    words = " ".join("".join(c if c.isprintable() else " " for c in failures.message).split())
    return words if len(words) <= _MESSAGE_LENGTH else f"{words[:_MESSAGE_LENGTH]}…"


def _format_calls(cell: Cell, purpose: str) -> str:
    # A method without any call of this purpose has made none; one without episodes, or without a mean, has no number.
    return f"{cell.by_purpose.get(purpose, {}).get('calls', 0.0):.2f}" if cell.by_purpose else "-"


def _format_tokens(cell: Cell, purpose: str) -> str:
    costs = cell.by_purpose.get(purpose, {})
    return f"{costs.get('tokens_in', 0.0):,.0f}/{costs.get('tokens_out', 0.0):,.0f}" if cell.by_purpose else "-"


def _format_with_interval(measure: str, cell: Cell) -> str:
    estimate = cell.measures[measure]
    words = _format_mean(measure, estimate)
    if estimate is not None and cell.is_incomplete(measure):
        words += "*"
    return words if estimate is None or estimate.low is None else f"{words} ({format_interval(measure, estimate)})"


def _format_mean(measure: str, estimate: Estimate | None) -> str:
    return "-" if estimate is None else _format_value(measure, estimate.value)


def _format_value(measure: str, value: float) -> str:
    if measure in _WHOLE:
        return f"{value:,.0f}"
    return f"{value:.2f}" if measure in _FEW_DIGITS else f"{value:.3f}"


def _format_usage(usage: Usage) -> str:
    return f"{usage.calls:,} calls, {usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"


def _format_printed(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


REPORT_FILES: Mapping[str, Callable[[Summary], str]] = {
    "report.md": lambda summary: report_page(summary, with_figure=False).to_markdown(),
    "results.csv": tidy_csv,
    "tables.tex": _write_latex,
    "report.html": lambda summary: report_page(summary).to_html(),
}
"""The files of a report, each with the function that writes its text."""
