"""The report on a run: its tables and where its numbers come from, in all formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from beliefrag.errors import MissingExtra
from beliefrag.methods import METHODS, needs_calibration
from beliefrag.models.cost import price_of
from beliefrag.models.failures import one_line
from beliefrag.report.figure import draw_quality_against_tokens, figure_svg, open_figure
from beliefrag.report.paper_comparison import tables_with_paper
from beliefrag.report.table import Block, Heading, Page, Picture, Table
from beliefrag.runs.record import RunRecord, in_dollars
from beliefrag.runs.statistics import Estimate
from beliefrag.runs.summary import MEAN, MEASURES, PURPOSE_COSTS, Cell, Summary
from beliefrag.types import Usage

_BY_DATASET = (
    *("f1", "exact_match", "cover", "judge", "follows_false", "recovers_true"),
    *("evidence_recall", "answer_row_recall", "tokens"),
)
_COSTS = ("rounds", "actions", "calls", "tokens_in", "tokens_out", "seconds")
_OUTCOMES = ("answered", "stopped", "abstained", "failed")
_DIGITS = {"tokens": 0, "tokens_in": 0, "tokens_out": 0, "rounds": 2, "actions": 2, "calls": 2, "seconds": 2}
CHARGED_EACH_STEP = "every method that searches pays for one observation of the verifier in each step, as in the paper"
_SHOWN_IDS = 5


def write_report(summary: Summary, folder: Path) -> list[Path]:
    """Write all formats of the report into a folder, over those of an earlier one."""
    first = summary.first_line
    files = {
        "report.md": report_page(summary, with_figure=False).to_markdown(),
        "results.csv": f"# {first}\n{_tidy_csv(summary)}",
        "report.html": report_page(summary).to_html(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def results_table(summary: Summary) -> Table:
    """Return the main table: a row for each dataset and method."""
    columns = {
        "n": _count_questions,
        **_means("exact_match", "f1"),
        "F1 95 %": lambda cell: _format_interval("f1", cell.measures["f1"]),
        **_means("cover", "judge", "evidence_recall", "answer_row_recall", *_COSTS),
        "/".join(_OUTCOMES): _count_outcomes,
    }
    return _cell_table("results", "Results", summary, columns)


def report_page(summary: Summary, *, with_figure: bool = True) -> Page:
    """Return the page of a report: the figure if wanted, all tables, and where the numbers come from."""
    blocks: list[Block] = []
    if with_figure and (figure := _draw_if_possible(summary)):
        over = _datasets_of_mean(summary, "f1")
        about = "Means over datasets, with 95 % intervals. A method without such a mean has no point."
        about += f" Both numbers are over {', '.join(over)}." if over else ""
        blocks += [Heading("F1 against tokens"), about, figure]
    for table in report_tables(summary):
        blocks += [Heading(table.title), replace(table, title="")]
    blocks += [Heading("Provenance"), Table.of_texts("provenance", "", ("what", "which"), provenance(summary))]
    return Page("Benchmark report", tuple(blocks), status=summary.first_line, complete=summary.complete)


def report_tables(summary: Summary) -> Iterator[Table]:
    """Return all tables of a report, in their order."""
    cells = {(cell.dataset, cell.method): cell for cell in summary.cells}
    datasets, methods = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))

    def table(name: str, title: str, text: Callable[[Cell], str], shown: list[str], note: str) -> Table:
        rows = [(METHODS.title(method), *(text(cells[each, method]) for each in shown)) for method in methods]
        return Table.of_texts(name, title, ("method", *shown), rows, note)

    for measure in _BY_DATASET:
        if any(cell.measures[measure] is not None for cell in summary.cells):
            note = (
                "Mean over questions with its 95 % bootstrap interval; ? marks an interval on fewer than 20 questions."
            )
            if any(cell.is_incomplete(measure) for cell in summary.cells):
                note += " * marks a number that lacks questions that were asked."
            if over := _datasets_of_mean(summary, measure):
                note += f" The mean is over {', '.join(over)}."
            text = partial(_format_with_interval, measure)
            yield table(measure, f"{MEASURES[measure]} by dataset", text, datasets, note)
    if any(cell.episodes for cell in summary.cells):
        yield from _effort_tables(summary)
    note = "Episodes answered/stopped/abstained/failed. A failed one is in no mean."
    yield table("outcomes", "Outcomes", _count_outcomes, [each for each in datasets if each != MEAN], note)
    if summary.failures:
        rows = []
        for f in summary.failures:
            ids, more = " ".join(f.question_ids[:_SHOWN_IDS]), len(f.question_ids) - _SHOWN_IDS
            ids += f" and {more:,} more" if more > 0 else ""
            rows.append((f.cause, f.dataset, METHODS.title(f.method), len(f.question_ids), ids, one_line(f.message)))
        headings = ("cause", "dataset", "method", "episodes", "questions", "first message")
        note = "By cause. None of them is in a mean; the command of the run tries them again."
        yield Table.of_texts("failures", "Failed episodes", headings, rows, note)
    yield from tables_with_paper(summary)


def provenance(summary: Summary) -> list[tuple[str, str]]:
    """Return where the numbers come from: model, calibration, retriever, budget, versions, datasets and prompts."""
    run = summary.run
    datasets = []
    for name, each in run.datasets.items():
        splits = f" of {', '.join(each.splits)}" if any(each.splits) else ""
        words = f"{len(each.question_ids):,} questions{splits}, {each.passages:,} passages, corpus {each.fingerprint}"
        datasets.append((f"dataset {name}", f"{words}, {each.licence}" if each.licence else words))
    return [
        ("begun", run.made),
        ("model", run.model),
        ("judge", run.judge or "none"),
        ("verifier form", run.verifier),
        ("calibration", ", ".join(f"{each.name} {each.sha256[:16]}" for each in run.calibrations) or "none"),
        *(
            (f"calibration of {METHODS.title(name)}", "; ".join(each.calibration_warnings))
            for name, each in run.setups.items()
            if each.calibration_warnings
        ),
        ("charging", CHARGED_EACH_STEP if run.rules.observe_each_step else "methods pay for what they use"),
        ("further rules", str(run.rules) or "ours"),
        ("retriever", run.searched_with),
        ("budget", _list_pairs(asdict(run.budget))),
        *((f"thresholds of {METHODS.title(name)}", words) for name, words in _describe_thresholds(run)),
        ("seed", str(run.seed)),
        ("versions", _list_pairs(run.versions)),
        *(("later versions", _list_pairs(each)) for each in run.later_versions),
        *cost_lines(summary),
        *datasets,
        *((f"prompt {name}", digest) for name, digest in run.prompts.items()),
    ]


def _describe_thresholds(run: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield for each method with thresholds what was set in the run, and where the defaults come from."""
    for name in run.methods:
        if name in METHODS and (origin := METHODS[name].thresholds_from):
            used = (
                _list_pairs(asdict(run.setups[name].thresholds))
                if needs_calibration(name)
                else run.method_options.get(name)
            )
            yield name, f"{used}; defaults: {origin}" if used else origin


def cost_lines(summary: Summary) -> list[tuple[str, str]]:
    """Return the cost of all finished episodes, in dollars where a price is known; the judge's apart from it."""
    run = summary.run
    money = in_dollars(run.model, run.price or price_of(run.model), summary.spent)
    lines = [("cost", f"{format_usage(summary.spent)}; {money}")]
    if run.judge:
        money = in_dollars(run.judge, run.judge_price or price_of(run.judge), summary.judge_spent)
        lines.append(("cost of the judge", f"{format_usage(summary.judge_spent)}, in no method's cost; {money}"))
    return lines


def mean_notes(summary: Summary) -> Iterator[str]:
    """Return a line for each set of datasets that some means are over, if that is not all of them."""
    names: dict[tuple[str, ...], list[str]] = {}
    for measure, heading in MEASURES.items():
        if over := _datasets_of_mean(summary, measure):
            names.setdefault(over, []).append(heading)
    for over, headings in names.items():
        yield f"the mean of {', '.join(headings)} is over {', '.join(over)} alone"


def _tidy_csv(summary: Summary) -> str:
    """Return all numbers unrounded, a line for each dataset, method and measure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("dataset", "method", "measure", "value", "low", "high", "n", "few", "datasets"))
    for cell in summary.cells:
        place = (cell.dataset, cell.method)
        for name, number in cell.measures.items():
            if number is not None:
                values = (number.value, number.low, number.high, number.questions, int(number.has_few_questions))
                writer.writerow((*place, name, *values, len(cell.rests_on[name])))
        counts: dict[str, float] = {name: getattr(cell, name) for name in ("episodes", "missing", "failed", "unjudged")}
        counts |= {f"outcome_{name}": cell.outcomes.get(name, 0) for name in _OUTCOMES[:3]}
        counts |= {
            "judge_tokens": cell.judge_tokens,
            **({"above_cap": cell.above_cap} if cell.by_purpose else {}),
            **{f"{part}_{name}": costs[part] for part in PURPOSE_COSTS for name, costs in cell.by_purpose.items()},
        }
        writer.writerows((*place, name, count, "", "", cell.episodes, "", "") for name, count in counts.items())
    return text.getvalue()


def _draw_if_possible(summary: Summary) -> Picture | str | None:
    try:
        return _draw_methods(summary)
    except MissingExtra as error:
        return f"{error.message} {error.remedy}"


def _draw_methods(summary: Summary) -> Picture | None:
    """Draw each method on the mean over datasets, or on the only one; None without any F1.

    Both numbers of a point are over the same questions: the tokens of a dataset without F1 do not count.
    """
    means = {
        cell.method: (tokens.without_flat_interval(), f1.without_flat_interval())
        for cell in [cell for cell in summary.cells if cell.dataset == MEAN] or summary.cells
        if (f1 := cell.measures["f1"]) is not None and (tokens := cell.tokens_beside_f1) is not None
    }
    if not means:
        return None
    figure = open_figure((8.0, 5.0))
    draw_quality_against_tokens({"": means}, figure)
    return Picture(figure_svg(figure, "F1 against tokens"))


def _effort_tables(summary: Summary) -> Iterator[Table]:
    def above_cap(cell: Cell) -> str:
        return str(cell.above_cap) if cell.by_purpose else "-"

    note = (
        "Means per question. Seconds are those of the model when it made the replies. The judge is in none of them. "
        "Above the cap: episodes whose calls, without the final answer, took more than "
        f"{summary.run.budget.tokens:,} tokens. A call begins only if its expected cost fits; a longer reply can "
        "exceed the cap."
    )
    columns = {"n": _count_questions, **_means(*_COSTS), "above the cap": above_cap}
    yield _cell_table("effort", "Effort", summary, columns, note)
    purposes = sorted({purpose for cell in summary.cells for purpose in cell.by_purpose})
    columns = {purpose.replace("_", " "): partial(_format_costs, purpose) for purpose in purposes}
    note = "Model calls per question: tokens in/out."
    yield _cell_table("purposes", "Calls and tokens by purpose", summary, columns, note)


Texts = Mapping[str, Callable[[Cell], str]]


def _cell_table(name: str, title: str, summary: Summary, columns: Texts, note: str = "") -> Table:
    """Return a table with a row for each cell, whose columns are made by functions."""
    rows = [(c.dataset, METHODS.title(c.method), *(text(c) for text in columns.values())) for c in summary.cells]
    return Table.of_texts(name, title, ("dataset", "method", *columns), rows, note)


def _means(*measures: str) -> Texts:
    return {MEASURES[measure]: partial(_format_mean, measure) for measure in measures}


def _datasets_of_mean(summary: Summary, measure: str) -> tuple[str, ...]:
    """Return the datasets that the mean of a measure is over; empty without a mean, or if it is over all."""
    means = [cell.rests_on[measure] for cell in summary.cells if cell.dataset == MEAN and measure in cell.rests_on]
    over = tuple(dataset for dataset in summary.run.datasets if any(dataset in names for names in means))
    return over if len(over) < len(summary.run.datasets) else ()


def _count_questions(cell: Cell) -> str:
    return f"{cell.episodes:,}" if cell.episodes == cell.asked else f"{cell.episodes:,} of {cell.asked:,}"


def _count_outcomes(cell: Cell) -> str:
    return "/".join(str(cell.outcomes.get(name, 0)) for name in _OUTCOMES)


def _list_pairs(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _format_costs(purpose: str, cell: Cell) -> str:
    costs = cell.by_purpose.get(purpose, {})
    calls, read, written = (costs.get(part, 0.0) for part in ("calls", "tokens_in", "tokens_out"))
    return f"{calls:.2f}: {read:,.0f}/{written:,.0f}" if cell.by_purpose else "-"


def _format_mean(measure: str, cell: Cell) -> str:
    estimate = cell.measures[measure]
    return "-" if estimate is None else _format_value(measure, estimate.value)


def _format_with_interval(measure: str, cell: Cell) -> str:
    estimate, words = cell.measures[measure], _format_mean(measure, cell)
    words += "*" if estimate is not None and cell.is_incomplete(measure) else ""
    return words if estimate is None or estimate.low is None else f"{words} ({_format_interval(measure, estimate)})"


def _format_interval(measure: str, estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return "-"
    low, high = (_format_value(measure, side) for side in (estimate.low, estimate.high))
    return f"{low} to {high}{' ?' if estimate.has_few_questions else ''}"


def _format_value(measure: str, value: float) -> str:
    return f"{value:,.{_DIGITS.get(measure, 3)}f}"


def format_usage(usage: Usage) -> str:
    """Return calls and tokens in words."""
    return f"{usage.calls:,} calls, {usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"
