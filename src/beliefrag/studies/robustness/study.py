"""What happens when evidence is imperfect: irrelevant passages, false ones, and evidence of another source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from beliefrag.methods import METHODS
from beliefrag.report.table import format_number
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Beside, CellValue, Column, Result, Table, beside
from beliefrag.studies.robustness.figure import draw_robustness
from beliefrag.studies.robustness.found import MOST, RATES, Found, find
from beliefrag.studies.robustness.runs import (
    COMPARED,
    COUNTERFACTUAL,
    LEVELS,
    METHOD,
    ORDINARY_RUN,
    noise_run,
    runs,
)
from beliefrag.studies.robustness.sources import LEAST
from beliefrag.studies.study import Study, StudyOptions
from beliefrag.studies.variants import unlike

__all__ = ["ROBUSTNESS"]


def _needs(asked: StudyOptions) -> tuple[RequiredRun, ...]:
    return runs(COMPARED)


def _work_out(recordings: Mapping[str, Recording], asked: StudyOptions) -> Result:
    found = find(recordings, asked)
    n = _n(found)
    if not found.levels:
        return Result.too_little("Every method must have finished at least two questions at every level.", n=n)
    curves = {method: [(level, found.f1(method, level)) for level in LEVELS] for method in COMPARED}
    return Result(
        n=n,
        findings=tuple(_findings(found)),
        numbers=_numbers(found),
        tables=(_noise_table(found), _false_table(found), _source_table(found)),
        notes=tuple(_notes(found, recordings, asked)),
        published=_published(found),
        published_note="Theirs is the accuracy by an LLM judge on RGB with gpt-oss-120b; how many of the passages were "
        f"false is not said. Ours is by {asked.label} with another model. RGB's own noise is about the question's "
        "subject; here what replaces a hit shares no content word with the question.",
        draw=partial(draw_robustness, curves, _rates(found), found.areas),
        figure_size=(12.0, 4.4),
        caption="F1 by the share of hits that irrelevant passages replace; what becomes of the answer when up to "
        f"{COUNTERFACTUAL:.0%} of the passages are false; and the AUC of answerability by the source of the evidence. "
        "Lines across marks and bars are 95 % intervals.",
    )


def _rates(found: Found) -> dict[str, dict[str, Estimate | None]]:
    return {method: {name: found.misled.rate(method, name) for name in RATES} for method in COMPARED}


def _n(found: Found) -> str:
    noisy = len(found.levels[0.0].f1[METHOD]) if found.levels else 0
    states = ", ".join(f"{source.states:,} of {source.name}" for source in found.sources)
    return (
        f"Noise: {noisy:,} questions by {len(COMPARED)} methods at {len(LEVELS)} levels. Counterfactual: "
        f"{found.misled.questions:,} questions. Sources: states with a known outcome, {states}."
    )


def _findings(found: Found) -> Iterator[str]:
    for method in reversed(COMPARED):
        f1, lost = found.f1(method, MOST), found.lost(method)
        yield (
            f"{METHODS.title(method)} with {MOST:.0%} of its hits replaced: F1 {format_number(f1)}, that is "
            f"{format_number(lost, '+.3f')} against none."
        )
    for method in reversed(COMPARED):
        followed, recovered = (found.misled.rate(method, name) for name in ("follows_false", "recovers_true"))
        if followed is not None and recovered is not None:
            yield (
                f"{METHODS.title(method)} with up to {COUNTERFACTUAL:.0%} false passages: follows the false answer on "
                f"{format_number(followed, '.0%')} of the questions, and has the true one on "
                f"{format_number(recovered, '.0%')}."
            )
    ordinary, web = (found.areas[source.name] for source in found.sources[:2])
    if ordinary is None or web is None or found.shift is None:
        yield (
            f"The AUC by source cannot be told: of each source it needs at least {LEAST} questions with a right answer "
            f"and {LEAST} with a wrong one."
        )
    else:
        yield (
            f"The calibrator ranks right before wrong with AUC {format_number(ordinary)} on ordinary evidence and "
            f"{format_number(web)} on web snippets: {format_number(found.shift, '+.3f')}."
        )


def _noise_table(found: Found) -> Table:
    columns = (
        Column("method"),
        Column("replaced", "share of what searches found", digits=1),
        Column("F1", bounded=True),
        Column("accuracy", bounded=True),
        Column("F1 lost", "difference to none", bounded=True),
        Column("support", "share of supporting passages retained", bounded=True),
        Column(f"{METHODS.title(METHOD)} F1", "difference to this method", bounded=True),
        Column(f"{METHODS.title(METHOD)} accuracy", "difference to this method", bounded=True),
    )
    rows: list[tuple[CellValue, ...]] = [
        (
            METHODS.title(method),
            level,
            found.f1(method, level),
            found.accuracy(method, level),
            found.lost(method) if level == MOST else None,
            found.support(method, level),
            *(found.ahead(method, level, measure) for measure in ("f1", "accuracy")),
        )
        for method in COMPARED
        for level in LEVELS
    ]
    note = "Without any replacement searches find irrelevant passages too: few questions have as many supporting ones."
    return Table("noise", "Answers by the share of hits that irrelevant passages replace", columns, tuple(rows), note)


def _false_table(found: Found) -> Table:
    shares = ("false answer followed", "true answer recovered", "abstained", "read a false passage")
    columns = (
        Column("method"),
        *(Column(name, "share of questions", bounded=True) for name in shares),
        Column("support", "share of supporting passages retained", bounded=True),
        Column(f"{METHODS.title(METHOD)} follows", "difference to this method", bounded=True),
        Column(f"{METHODS.title(METHOD)} recovers", "difference to this method", bounded=True),
    )
    rows = tuple(
        (
            METHODS.title(method),
            *(found.misled.rate(method, name) for name in RATES),
            *(found.misled.difference(method, name) for name in ("follows_false", "recovers_true")),
        )
        for method in COMPARED
    )
    note = (
        "On the questions that all methods finished. An answer follows if it has the false answer and not the true "
        "one; the others said something else. False passages take the place of true ones first: where little support "
        "is left, there is little to recover from."
    )
    return Table("counterfactual", f"With up to {COUNTERFACTUAL:.0%} false passages", columns, rows, note)


def _source_table(found: Found) -> Table:
    columns = (
        Column("source"),
        Column("AUC of answerability", bounded=True),
        Column("states", "with a known outcome"),
        Column("belief in conflict", "mean", bounded=True),
        Column("conflict gate fires", "share of states", bounded=True),
    )
    rows = tuple((s.name, found.areas[s.name], s.states, s.conflict, s.gate) for s in found.sources)
    title = f"The calibrator and the conflict gate of {METHODS.title(METHOD)} by the source of evidence"
    note = (
        f"The AUC is the simple mean over datasets with at least {LEAST} questions that have a right answer and "
        f"{LEAST} that have a wrong one."
    )
    return Table("sources", title, columns, rows, note)


def _numbers(found: Found) -> dict[str, Any]:
    return {
        "noise": {
            method: {
                f"{level:g}": {"f1": found.f1(method, level), "accuracy": found.accuracy(method, level)}
                for level in LEVELS
            }
            for method in COMPARED
        },
        "ahead_at_most_noise": {
            method: {measure: found.ahead(method, MOST, measure) for measure in ("f1", "accuracy")}
            for method in COMPARED
            if method != METHOD
        },
        "f1_lost": {method: found.lost(method) for method in COMPARED},
        "counterfactual": {"share": COUNTERFACTUAL, **_rates(found)},
        "counterfactual_against": {
            method: {name: found.misled.difference(method, name) for name in RATES}
            for method in COMPARED
            if method != METHOD
        },
        "sources": {
            s.name: {"auc": found.areas[s.name], "states": s.states, "conflict": s.conflict, "gate": s.gate}
            for s in found.sources
        },
        "auc_shift": found.shift,
    }


def _notes(found: Found, recordings: Mapping[str, Recording], asked: StudyOptions) -> Iterator[str]:
    yield f"An answer is right by {asked.label}; an abstention is not."
    ordinary, web = (recordings[name].run for name in (ORDINARY_RUN, noise_run(0.0)))
    if what := unlike(ordinary, web):
        yield f"The runs of ordinary evidence and of web snippets differ in the {what} too, not in their source alone."
    if found.dropped:
        yield f"{found.dropped} questions are left out of the noise: not every method finished them at every level."
    if found.misled.left_out:
        yield f"{found.misled.left_out} questions are left out of the rates: not every method finished them."
    for name, recording in recordings.items():
        methods = (METHOD,) if name == ORDINARY_RUN else COMPARED
        if sentence := recording.lacking(*methods):
            yield f"Run {name}: {sentence}"


def _published(found: Found) -> tuple[Beside, ...]:
    rates = _rates(found)
    others = [rate for m in COMPARED if m != METHOD and (rate := rates[m]["follows_false"]) is not None]
    ordinary, web, false = found.sources
    return beside(
        {
            **{f"noise80_{method}": found.accuracy(method, MOST) for method in reversed(COMPARED)},
            "false_followed": rates[METHOD]["follows_false"],
            "false_followed_least": min(others, key=lambda rate: rate.value) if others else None,
            "false_followed_most": max(others, key=lambda rate: rate.value) if others else None,
            "true_recovered": rates[METHOD]["recovers_true"],
            "auc_wikipedia": found.areas[ordinary.name],
            "auc_web": found.areas[web.name],
            "gate_conflict_counterfactual": false.gate,
            "gate_conflict_ordinary": ordinary.gate,
        }
    )


ROBUSTNESS = Study(
    name="robustness",
    title="Imperfect evidence",
    question="What happens to answers when passages are irrelevant or false, and to the calibrator on another source?",
    protocol=(
        "Noise: a share of what each search finds gives way to irrelevant passages, in the same places and scores.",
        "Irrelevant passages share no content word with the question or the query, and do not hold the answer.",
        f"Counterfactual: up to {COUNTERFACTUAL:.0%} of what a search finds gives way to RGB's own false passages.",
        "First false versions take the place of their hits, then others random places, as far as there are any.",
        "RGB's false passages are searched in none of the runs: they come in no other way.",
        "Injection is seeded by question and query: all methods face the same, and more noise includes less noise.",
        "An answer follows if it has the false answer and not the true one; it recovers if it has the true one.",
        "Source: answerability at the states of BeliefRAG's episodes, against whether the answer there is right.",
        "The sources are ordinary questions, RGB's web snippets without noise, and RGB with false passages.",
        "The conflict gate fires where the belief in conflict is at its threshold, at states with evidence.",
        "Intervals resample questions, 2,000 times, each with all its states.",
    ),
    needs=_needs,
    work_out=_work_out,
)
