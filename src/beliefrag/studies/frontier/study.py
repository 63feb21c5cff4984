"""Quality against cost: F1 by tokens of every method on the same questions, and which of them are worth having."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from beliefrag.methods import METHODS
from beliefrag.report.figure import MARKERS, CostPanel, CostPoint, draw_quality_against_tokens, shorten
from beliefrag.report.table import format_number
from beliefrag.runs.statistics import PairedComparison
from beliefrag.runs.summary import MEAN
from beliefrag.studies.frontier.compared import LEAST, Compared, Point, compared
from beliefrag.studies.frontier.tables import numbers, pairs_table, points_table, published
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Result
from beliefrag.studies.study import Study, StudyOptions

__all__ = ["FRONTIER"]

COMPARED = (
    *("no_rag", "static", "iterative", "adaptive_k", "adaptive_rag"),
    *("self_rag", "crag", "rl_search", "beliefrag"),
)
"""By default: those of the paper."""


def _needs(asked: StudyOptions) -> tuple[RequiredRun, ...]:
    named = asked.methods or COMPARED
    methods = named if asked.of in named else (*named, asked.of)
    return (RequiredRun("comparison", methods, least=methods if asked.methods else (asked.of,)),)


def _work_out(recordings: Mapping[str, Recording], asked: StudyOptions) -> Result:
    recording = recordings["comparison"]
    found = compared(recording, asked)
    n = _n(recording, found)
    if len(found.methods) < 2:
        return Result.too_little(
            f"A comparison needs episodes of at least two methods, {METHODS.title(asked.of)} among them.", n=n
        )
    if not found.datasets:
        return Result.too_little(
            f"A comparison needs a dataset of which every method finished at least {LEAST} questions.", n=n
        )
    fronts = {place: found.front(place) for place in found.places()}
    shares = {place: found.share_on_front(place) for place in found.places()}
    pairs = {
        (place, other): found.against(asked.of, other, place)
        for place in found.places()
        for other in found.methods
        if other != asked.of
    }
    points = {
        place: [_point(found, method, place, fronts[place][method]) for method in found.methods]
        for place in found.places()
    }
    notes = [
        f"Of {name} {count} questions are left out, for some method did not finish them."
        for name, count in found.left_out.items()
        if count
    ]
    if small := [name for name in recording.datasets if name not in found.datasets]:
        notes.append(f"Left out, with fewer than {LEAST} questions that every method finished: {', '.join(small)}.")
    if missing := [METHODS.title(method) for method in COMPARED if method not in found.methods]:
        notes.append(f"Methods of the paper that are not in this run: {', '.join(missing)}.")
    notes += [sentence] if (sentence := recording.lacking(*found.methods)) else []
    return Result(
        n=n,
        findings=tuple(_findings(found, fronts, pairs, asked)),
        numbers=numbers(points, shares, pairs, asked),
        tables=(points_table(points, shares), pairs_table(pairs, asked)),
        notes=tuple(notes),
        published=tuple(published(found)),
        published_note="Their means are over six datasets of 100 questions with gpt-oss-120b; ours are over the "
        "datasets named below with another model. Compare the order of the methods, not the values.",
        draw=partial(draw_quality_against_tokens, _panels(points)),
        figure_size=(11.0, 4.4 * ((len(points) + 1) // 2)),
        caption="Mean token F1 against mean tokens per question. Further up is better, further left is cheaper. The "
        "step line joins the methods on the Pareto front, which have filled marks; bars are 95 % intervals.",
    )


def _n(recording: Recording, found: Compared) -> str:
    if not found.datasets or not found.methods:
        return f"{len(recording.episodes):,} episodes of {', '.join(recording.datasets) or 'no dataset'}."
    counts = {name: len(found.values[found.methods[0]][name]["f1"]) for name in found.datasets}
    words = ", ".join(f"{count} of {name}" for name, count in counts.items())
    many = f"{sum(counts.values()):,} questions ({words})"
    return f"{many}, each by {len(found.methods)} methods; seed {recording.run.seed}."


def _point(found: Compared, method: str, place: str, front: bool) -> Point:
    f1, tokens = (found.estimate(method, place, name).without_flat_interval() for name in ("f1", "tokens"))
    return Point(method, tokens, f1, front)


def _panels(points: Mapping[str, list[Point]]) -> list[CostPanel]:
    markers = {method: MARKERS[place % len(MARKERS)] for place, method in enumerate(METHODS)}
    return [
        CostPanel(
            f"mean over {len(points) - 1} datasets" if name == MEAN else shorten(name),
            tuple(CostPoint(METHODS.title(p.method), p.tokens, p.f1, markers[p.method], p.front) for p in each),
        )
        for name, each in points.items()
    ]


def _findings(
    found: Compared,
    fronts: Mapping[str, Mapping[str, bool]],
    pairs: Mapping[tuple[str, str], PairedComparison],
    asked: StudyOptions,
) -> Iterator[str]:
    place = found.places()[0]
    where = "On the mean over datasets" if place == MEAN else f"On {place}"
    front = [m for m in found.methods if fronts[place][m]]
    cheap = sorted(front, key=lambda m: found.estimate(m, place, "tokens").value)
    names = ", ".join(METHODS.title(m) for m in cheap)
    order = ", from the cheapest to the best" if len(cheap) > 1 else " alone"
    yield f"{where} the Pareto front among these {len(found.methods)} methods is {names}{order}."
    for other in found.methods:
        if other == asked.of:
            continue
        f1, tokens = (pairs[place, other].measures[name] for name in ("f1", "tokens"))
        doubt = "" if f1.is_clear else "; the difference in F1 is not clear"
        more, cost = (each.difference.without_flat_interval() for each in (f1, tokens))
        yield (
            f"{METHODS.title(asked.of)} against {METHODS.title(other)}: F1 {format_number(more, '+.3f')} and "
            f"{format_number(cost, '+,.0f')} tokens per question{doubt}."
        )


FRONTIER = Study(
    name="frontier",
    title="Quality against cost",
    question="How good are the answers of each method, and how many tokens do they take?",
    protocol=(
        "All methods answer the same questions with the same model, corpus, retriever, prompts and budget.",
        "Quality is token F1, cost the tokens that the model read and wrote; a judge is in neither.",
        "Means are over the questions that every method finished; the mean over datasets is the simple one.",
        "Intervals resample questions within each dataset, 2,000 times; differences are paired, 10,000 times.",
        "A method is on the Pareto front if no other one is as cheap and as good, and cheaper or better.",
        "Means are uncertain, and so is the front: a table has the share of resamples in which a method is on it.",
    ),
    needs=_needs,
    work_out=_work_out,
)
