"""What information is in the belief state?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from beliefrag.calibration.examples import Examples, LeftOut, label_states
from beliefrag.report.figure import DASHES, HATCHES, MARKERS, draw_interval
from beliefrag.report.table import CellValue, Column, Table, format_cell, format_number
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.belief_measures import (
    ANSWERABILITY,
    DIMENSIONS,
    JOINT,
    MIN_FIT_QUESTIONS,
    PARTITIONS,
    RESAMPLES,
    BeliefMeasures,
    PermutationTest,
    measure_belief,
)
from beliefrag.studies.state_table import StateTable
from beliefrag.studies.study import STUDIES, Recording, RequiredRun, StudyContext, StudyResult, compare_with_paper
from beliefrag.types import Action

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

__all__ = ["BeliefStudy", "draw_belief"]

_SHADES = ("white", "0.85", "0.65", "0.45", "0.25", "0.95")


def draw_belief(found: BeliefMeasures, figure: Figure) -> None:
    """Draw the four panels."""
    panels = figure.subplots(2, 2)
    _draw_signals(panels[0, 0], found)
    _draw_correlations(panels[0, 1], found)
    _draw_calibration(panels[1, 0], found)
    _draw_actions(panels[1, 1], found)


def _draw_signals(axes: Axes, found: BeliefMeasures) -> None:
    ordered = sorted(found.signals.items(), key=lambda item: item[1].value)
    for place, (name, estimate) in enumerate(ordered):
        draw_interval(axes, estimate, place, "0.4", upright=False, linewidth=1.6, zorder=2)
        single = name in DIMENSIONS
        axes.plot(
            [estimate.value],
            [place],
            "o" if single else "D",
            markersize=8,
            markeredgecolor="black",
            markerfacecolor="white" if single else "black",
        )
        axes.text(1.03, place, f"{estimate.value:.2f}", va="center", fontsize=9)
    for place, (name, _) in enumerate(ordered):
        if each := found.permutations.get(name):
            axes.plot([each.mean], [place], "|", markersize=13, markeredgewidth=2, color="0.55")
    axes.axvline(0.5, color="black", linestyle=":", linewidth=1.2)
    axes.set_yticks(range(len(ordered)), [name for name, _ in ordered])
    axes.set_xlim(0.2, 1.14)
    axes.set_xticks([0.2, 0.4, 0.5, 0.6, 0.8, 1.0])
    axes.set_xlabel(
        "AUC: chance that a right state scores better than a wrong one\n"
        "(0.5: no signal; line: 95 % interval;\n"
        "grey tick: exchanged among matched states, on those alone)"
    )
    axes.set_title("How well each signal tells right from wrong", fontsize=11)
    axes.grid(axis="x", color="0.92")
    axes.set_axisbelow(True)


def _draw_correlations(axes: Axes, found: BeliefMeasures) -> None:
    names = list(DIMENSIONS)
    for row, one in enumerate(names):
        for column, other in enumerate(names[:row]):
            estimate = found.correlations[other, one]
            strength = 0.0 if estimate is None else abs(estimate.value)
            axes.add_patch(_make_square(column, row, str(1 - 0.75 * strength)))
            words = "–" if estimate is None else f"{estimate.value:+.2f}"
            axes.text(column, row, words, ha="center", va="center", color="white" if strength > 0.6 else "black")
    axes.set_xlim(-0.5, len(names) - 1.5)
    axes.set_ylim(len(names) - 0.5, 0.5)
    axes.set_xticks(range(len(names) - 1), names[:-1], rotation=20)
    axes.set_yticks(range(1, len(names)), names[1:])
    axes.set_title("How the dimensions hang together", fontsize=11)
    axes.set_xlabel("rank correlation over states (darker: stronger, of either sign)")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _make_square(column: int, row: int, shade: str) -> Rectangle:
    from matplotlib.patches import Rectangle  # noqa: PLC0415 (slow to load)

    return Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=shade, edgecolor="white")


def _draw_calibration(axes: Axes, found: BeliefMeasures) -> None:
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, label="perfectly calibrated")
    for place, (name, each) in enumerate(found.calibration.items()):
        axes.plot(
            [b.predicted for b in each.curve],
            [b.observed for b in each.curve],
            marker=MARKERS[place],
            linestyle=DASHES[place],
            color="black",
            markerfacecolor="white" if place % 2 else "black",
            label=f"{name}: ECE {each.ece:.3f}",
        )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("mean score in a bin of one tenth")
    axes.set_ylabel("share of right answers in that bin")
    axes.set_title("How near scores lie to the share of right answers", fontsize=11)
    axes.grid(color="0.92")
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", fontsize=8, framealpha=1)


def _draw_actions(axes: Axes, found: BeliefMeasures) -> None:
    present = [action for action in Action if any(level.actions.get(action) for level in found.levels)]
    ticks, words = [], []
    for place, level in enumerate(found.levels):
        y = place + 0.7 * (place // 3)
        left = 0.0
        for number, action in enumerate(present):
            share = level.share(action)
            axes.barh(
                y,
                share,
                left=left,
                height=0.85,
                color=_SHADES[number % len(_SHADES)],
                hatch=HATCHES[number % len(HATCHES)],
                edgecolor="black",
                linewidth=0.6,
                label=action.value if place == 0 else None,
            )
            left += share
        ticks.append(y)
        words.append(f"{level.dimension}: {level.name}" if place % 3 == 0 else level.name)
    axes.set_yticks(ticks, words, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of visited states, by what was done next\n(levels: thirds of the visited states)")
    axes.set_title("What was done at each level of the belief", fontsize=11)
    if found.levels:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=8, frameon=False, ncols=len(present))


_METHOD, _SURVEY = "beliefrag", "survey"
_MIN_QUESTIONS = 5
"""Questions with a right and with a wrong state: with fewer an AUC says nothing."""
_SINGLE = "strongest single one on other questions"
_GATE = "right among states that pass the answer gate"


@STUDIES.register(
    "belief",
    title="What is in the belief state",
    summary="Does each dimension of the belief predict whether an answer is right, and what do all of them add?",
)
@dataclass(frozen=True, slots=True)
class BeliefStudy:
    """Looks at the belief on states whose answer is known to be right or wrong."""

    protocol: ClassVar[tuple[str, ...]] = (
        "The states are those that BeliefRAG visited, with the answer that each would give and whether it is right.",
        "AUC: the chance that a right state has the better value than a wrong one. Half is no signal.",
        "The direction is that of the meaning: more sufficiency and reliability, less of the others. It is not fitted.",
        "Jointly: a logistic fit of the six dimensions on four fifths of the questions scores the states of the rest.",
        "Beside it stands the dimension that was strongest on the same four fifths. Both AUCs are within the rest.",
        f"The questions are parted {PARTITIONS} times by chance, and all parts count: one draw would be luck.",
        "A question counts once, its states share its weight; the paper seems to count states.",
        f"Intervals resample questions, 2,000 times; for the joint AUC {RESAMPLES} times, fitted and picked anew.",
        "Correlations are Spearman's. Calibration errors are over ten equal bins, right answers the outcome for both.",
        "Levels are thirds of the visited states; actions are those that followed.",
        "Permutation: scores are exchanged, 2,000 times, between questions of a dataset that reached the same rounds.",
        "Only scores that were not fitted on these states are: a fit that has seen their outcomes is not exchangeable.",
        "Each question takes part with its first state of every round: what dataset and round tell stays.",
    )

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Name the run that methods are compared in, with a survey where the verifier drafts no answers."""
        # Only a verifier that drafts answers leaves one at each state; for others a survey asks for them.
        methods = (_METHOD,) if context.drafts_answers else (_METHOD, _SURVEY)
        return (RequiredRun("comparison", methods, sufficient_methods=(_METHOD,)),)

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Work out how well the belief tells right states from wrong ones."""
        recording = recordings["comparison"]
        own = recording.trajectories_of(_METHOD)
        method, examples, left_out = _find_examples(recording, context)
        sample = _describe_sample(recording, examples)
        notes = _write_notes(recording, method, bool(len(examples)), left_out, context)
        count = examples.count
        if not own or min(count.questions_positive, count.questions_negative) < _MIN_QUESTIONS:
            why = (
                f"It needs at least {_MIN_QUESTIONS} questions with a state whose answer is right by {context.label}, "
                f"and {_MIN_QUESTIONS} with one whose answer is wrong; there are {count.questions_positive} and "
                f"{count.questions_negative}."
            )
            return StudyResult.insufficient(why, sample=sample, notes=notes)
        found = measure_belief(examples, StateTable(own), thresholds_of(recording.run).answer)
        return StudyResult(
            sample=sample,
            findings=tuple(_describe_findings(found)),
            numbers=_collect_numbers(found),
            tables=tuple(_make_tables(found)),
            notes=(*notes, *_write_more_notes(found)),
            paper_values=compare_with_paper(
                {
                    "auc_best_single": found.signals[found.best],
                    "auc_joint": found.signals.get(JOINT),
                    "ece_sufficiency": Estimate(found.calibration["sufficiency"].ece),
                    "ece_reliability": Estimate(found.calibration["reliability"].ece),
                }
            ),
            paper_note="Theirs are with gpt-oss-120b, answers judged by a model. Their strongest dimension is "
            f"uncertainty, the strongest here {found.best}. The paper does not say whether its "
            "joint AUC was taken on states that the fit had seen, nor how it binned its calibration errors.",
            draw=partial(draw_belief, found),
            figure_size=(12.0, 9.6),
            caption="How well each belief dimension tells right from wrong states; how the dimensions hang together; "
            "how near two of them lie to the share of right answers; what was done next at each level.",
        )


def _find_examples(recording: Recording, context: StudyContext) -> tuple[str, Examples, LeftOut]:
    """Find the states with a known outcome: BeliefRAG's own where it has any, else those of a state collector."""
    method = _METHOD
    found = label_states(recording.trajectories_of(_METHOD), context.label)
    if not len(found[0]) and (surveyed := recording.trajectories_of(_SURVEY)):
        method, found = _SURVEY, label_states(surveyed, context.label)
    return method, *found


def _describe_sample(recording: Recording, examples: Examples) -> str:
    count = examples.count
    by_dataset = {name: len({e.question_id for e in examples.each if e.dataset == name}) for name in recording.datasets}
    words = ", ".join(f"{many} of {name}" for name, many in by_dataset.items() if many)
    questions = f"{count.questions:,} questions ({words or 'none'})"
    return f"{count.states:,} states with an answer on trial, {count.positive:,} of them right, of {questions}."


def _write_notes(
    recording: Recording, method: str, found: bool, left_out: LeftOut, context: StudyContext
) -> tuple[str, ...]:
    right = "a token F1 of at least one half" if context.label == "f1" else context.label.replace("_", " ")
    notes = [f"A state is right if answering there gives a right answer: {right}."]
    if method == _SURVEY:
        notes.append("BeliefRAG's own states have no answer on trial; those of a survey of the same questions serve.")
    notes.append(
        f"Left out: {left_out.without_evidence:,} states without evidence and {left_out.unlabelled:,} without a known "
        "outcome."
    )
    if not found:
        form = recording.run.verifier
        notes.append(f"No state has a known outcome: the verifier form {form} leaves none, and no survey does.")
    if sentence := recording.describe_missing(method):
        notes.append(sentence)
    return tuple(notes)


def _write_more_notes(found: BeliefMeasures) -> Iterator[str]:
    if JOINT not in found.signals:
        yield (
            f"All dimensions jointly cannot be said: a fit needs at least {MIN_FIT_QUESTIONS} questions with a right "
            f"and {MIN_FIT_QUESTIONS} with a wrong state."
        )
    if found.held_out is not None:
        yield "Six weights that are fitted on few questions fit some chance too: more questions would help them."
    if found.same_order_as:
        yield (
            f"The run's calibration makes answerability a rising function of {found.same_order_as}: both put the "
            "states in the same order, and have the same AUC and permutations. The paper's is a fit of all diagnostics."
        )
    match = found.matched
    on = "dataset, round and number of retained passages" if match.on_retained else "dataset and round"
    yield (
        f"Permutation: states matched on {on}; {match.with_partner} of {match.questions} questions have a partner, the "
        "others keep their scores."
    )
    if found.without_levels:
        yield f"No levels of {', '.join(found.without_levels)}: too many states have the same value."
    yield "A calibration error cannot be below 0: few states make one by chance, which is given beside it."


def _describe_findings(found: BeliefMeasures) -> Iterator[str]:
    best = found.signals[found.best]
    yield f"The strongest single dimension is {found.best}: AUC {format_cell(best)}."
    if found.held_out is not None and found.joint_seen is not None:
        yield (
            f"All dimensions jointly, on questions that a fit had not seen: AUC {format_cell(found.held_out.joint)}. "
            "The single dimension that is strongest on the questions of the fit has "
            f"{format_cell(found.held_out.single)}: the difference is "
            f"{format_number(found.held_out.difference, '+.3f')}. Where a fit has seen the states it shows "
            f"{format_cell(found.joint_seen)}."
        )
    words = f"{found.same_order_as}, and with it answerability," if found.same_order_as else "calibrated answerability"
    if each := found.permutations.get(found.same_order_as or ANSWERABILITY):
        yield (
            f"Exchanged between matched states, {words} falls from AUC {each.observed:.3f} to {each.mean:.3f} "
            f"(permutations {each.low:.3f} to {each.high:.3f}), p = {each.p:.2g}."
        )
    if found.gate is not None:
        yield (
            f"Of the matched states that the answer gate lets pass, {found.gate.observed:.1%} are right; with "
            f"answerability exchanged it would be {found.gate.mean:.1%} (p = {found.gate.p:.2g})."
        )
    errors = "; ".join(
        f"{name} {each.ece:.3f}, where perfect calibration would show up to {each.chance_at_most:.3f} by chance"
        for name, each in found.calibration.items()
    )
    yield f"Expected calibration error: {errors}."


def _make_tables(found: BeliefMeasures) -> Iterator[Table]:
    yield Table(
        "auc",
        "How well each signal tells right from wrong states",
        (Column("signal"), Column("AUC", bounded=True)),
        (*found.signals.items(), *([(_SINGLE, found.held_out.single)] if found.held_out else [])),
        "Half is no signal; below half it points the wrong way. That of all jointly, and of the strongest one on other "
        "questions, is taken within parts of held-out questions.",
    )
    yield _permutations_table(found)
    yield Table(
        "correlations",
        "How the dimensions hang together",
        (Column("one"), Column("other"), Column("rank correlation", digits=2, bounded=True)),
        tuple((one, other, number) for (one, other), number in found.correlations.items()),
        "Spearman's; a dash where one of the two hardly varies.",
    )
    yield Table(
        "calibration",
        "Expected calibration error",
        (Column("score"), Column("ECE"), Column("by chance", "mean"), Column("by chance at most", "95 %")),
        tuple((name, each.ece, each.chance, each.chance_at_most) for name, each in found.calibration.items()),
        "By chance: what a score that is calibrated to the letter would show on as many states.",
    )
    yield Table(
        "reliability",
        "Reliability curves",
        (
            Column("score"),
            Column("from", digits=1),
            Column("to", digits=1),
            Column("states"),
            Column("weight", "share", digits=2),
            Column("mean score"),
            Column("right", "share"),
        ),
        tuple(
            (name, b.low, b.high, b.states, b.share, b.predicted, b.observed)
            for name, each in found.calibration.items()
            for b in each.curve
        ),
    )
    yield _actions_table(found)


def _permutations_table(found: BeliefMeasures) -> Table:
    columns = (
        Column("score"),
        Column("number"),
        Column("observed"),
        Column("permuted", "mean"),
        Column("permuted low"),
        Column("permuted high"),
        Column("p", digits=4),
    )
    rows = [_permutation_row(name, "AUC", each) for name, each in found.permutations.items()]
    if found.gate is not None:
        rows.append(_permutation_row("answerability", _GATE, found.gate))
    note = (
        "On the first state of each question and round. Low and high hold 95 % of the permutations; p is one-sided and "
        "not corrected for looking at several scores."
    )
    return Table("permutation", "Scores exchanged between matched states", columns, tuple(rows), note)


def _permutation_row(name: str, number: str, each: PermutationTest) -> tuple[CellValue, ...]:
    return (name, number, each.observed, each.mean, each.low, each.high, each.p)


def _actions_table(found: BeliefMeasures) -> Table:
    columns = (
        Column("dimension"),
        Column("level"),
        Column("from"),
        Column("to"),
        Column("states"),
        *(Column(action.value, "share", digits=2) for action in Action),
    )
    rows: tuple[tuple[CellValue, ...], ...] = tuple(
        (level.dimension, level.name, level.low, level.high, level.states, *(level.share(a) for a in Action))
        for level in found.levels
    )
    return Table("actions", "What was done next, by belief level", columns, rows)


def _test_record(test: PermutationTest) -> dict[str, float]:
    return {
        "observed": test.observed,
        "permuted": test.mean,
        "permuted_low": test.low,
        "permuted_high": test.high,
        "p": test.p,
    }


def _collect_numbers(found: BeliefMeasures) -> dict[str, object]:
    return {
        "auc": dict(found.signals),
        "best_single": found.best,
        "joint_auc_of_a_fit_that_has_seen_the_states": found.joint_seen,
        "best_single_on_questions_it_was_not_picked_on": found.held_out.single if found.held_out else None,
        "joint_minus_that_single": found.held_out.difference if found.held_out else None,
        "answerability_rises_with": found.same_order_as or None,
        "correlations": [
            {"one": one, "other": other, "rank_correlation": number}
            for (one, other), number in found.correlations.items()
        ],
        "ece": {
            name: {"value": each.ece, "by_chance": each.chance, "by_chance_at_most": each.chance_at_most}
            for name, each in found.calibration.items()
        },
        "permutation": {
            "matched_on": ["dataset", "round", *(["retained"] if found.matched.on_retained else [])],
            "questions": found.matched.questions,
            "with_partner": found.matched.with_partner,
            "auc": {name: _test_record(each) for name, each in found.permutations.items()},
            "right_among_passed": _test_record(found.gate) if found.gate else None,
        },
        "actions": [
            {
                "dimension": level.dimension,
                "level": level.name,
                "states": level.states,
                "shares": {action.value: level.share(action) for action in Action},
            }
            for level in found.levels
        ],
    }
