"""`beliefrag tune`: chooses thresholds from the recorded states of a run, without asking a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import GivenSettings, with_settings

if TYPE_CHECKING:
    from beliefrag.calibration.tuning import ThresholdGrid, Tuning, TuningGoal
    from beliefrag.runs.states import Label

__all__ = ["tune"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

_GOAL = "What to choose"
_GRID = "Which points to try (values between 0 and 1, with commas between; the run's own value is always among ours)"


@with_settings("calibration", "borrow")
def tune(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="The folder of a run with an answer recorded at each state; see 'beliefrag calibrate collect'.",
            show_default=False,
        ),
    ],
    *,
    max_tokens: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Choose the greatest mean F1 (or --measure) at no more than this many mean tokens per question.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    min_f1: Annotated[
        float | None,
        typer.Option(
            "--min-f1",
            metavar="X",
            min=0,
            max=1,
            help="Choose the fewest mean tokens per question at a mean F1 (or --measure) of at least this.",
            rich_help_panel=_GOAL,
        ),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The measure of how good answers are: f1, exact_match, cover or judge.",
            rich_help_panel=_GOAL,
        ),
    ] = "f1",
    answer: Annotated[
        str | None,
        typer.Option(
            metavar="X,...",
            help="Answer from this answerability on. By default 0.05 to 0.95 in steps of 0.05.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    retrieval_value: Annotated[
        str | None,
        typer.Option(
            metavar="X,...",
            help="Search again from this retrieval value on. By default 0.02, 0.05, 0.06, 0.1, 0.2, 0.3, 0.4, 0.5.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    novelty: Annotated[
        str | None,
        typer.Option(
            metavar="X,...",
            help="Rewrite the query first below this novelty. By default 0, 0.1, 0.2, 0.4.",
            rich_help_panel=_GRID,
        ),
    ] = None,
    corrections: Annotated[
        str | None,
        typer.Option(
            metavar="on,off", help="Whether to correct the evidence. By default both are tried.", rich_help_panel=_GRID
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write; by default tune in the run's folder.")
    ] = None,
    given: GivenSettings,
) -> None:
    """Choose thresholds from a run's recorded states: the best answers for a token budget, or the cheapest good ones.

    No model is asked. The point is chosen on one part of the questions (xsel) and reported on another (xhold). A point
    that leads to a step which was not recorded gets no result.

    Example: beliefrag tune runs/states --max-tokens 4000
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import FAILED, show_status
    from beliefrag.settings import load_settings

    label = _parse_measure(measure)
    grid = _parse_grid(answer, retrieval_value, novelty, corrections)
    goal = _parse_goal(max_tokens, min_f1)
    settings = load_settings(given.values, config=given.config).settings
    with show_status("trying operating points"):
        found = calibrate.tune(
            run,
            goal=goal,
            measure=label,
            grid=grid,
            calibration=settings.calibration,
            borrow=settings.borrow,
            out=out or run / "tune",
        )
    _print_tuning(found.tuning, found.files)
    if goal and not found.tuning.chosen:
        raise typer.Exit(FAILED)


def _print_tuning(tuning: Tuning, written: Sequence[Path]) -> None:
    from beliefrag.cli.output import print_notice, print_table, safe_line
    from beliefrag.report import tuning_report as report

    typer.echo(safe_line(report.status_line(tuning)))
    for note in tuning.notes:
        print_notice(f"warning: {note}")
    typer.echo("\nWhich decisions the recorded states can answer for:")
    for each in tuning.decisions:
        typer.echo(f"  {each.decision}: {each.known} ({each.reason})")
    if tuning.unknown_points:
        total = len(tuning.points) + len(tuning.unknown_points)
        typer.echo(
            f"\nWithout a result, because a step was not recorded: {len(tuning.unknown_points):,} of {total:,} points"
        )
        for points, questions, action, missing, advice in report.unknown_points_table(tuning).texts:
            typer.echo(f"  {points} points, for {questions} questions, lack a step at {action}: {missing}. {advice}")
    table, constant = report.drop_constant_columns(report.frontier_table(tuning), "novelty", "corrections", "abstained")
    typer.echo(f"\nThe frontier on xsel, from the cheapest to the best{f'; all with {constant}' if constant else ''}:")
    print_table(table.headings, table.texts)
    typer.echo("")
    for sentence in report.choice_sentences(tuning):
        typer.echo(safe_line(sentence))
    if tuning.chosen:
        table = report.comparison_table(tuning)
        # As far as a narrow terminal goes; rounds and abstentions are in the files.
        print_table(table.headings[:7], [row[:7] for row in table.texts])
        typer.echo("\nFor the settings file:")
        typer.echo(report.thresholds_toml(tuning.chosen.thresholds, tuning.artifact.name))
    for path in written:
        print_notice(f"written: {path}")


def _parse_goal(max_tokens: float | None, min_f1: float | None) -> TuningGoal | None:
    from beliefrag.calibration.tuning import TuningGoal
    from beliefrag.errors import SettingsError

    if max_tokens is None and min_f1 is None:
        return None
    if max_tokens is not None and min_f1 is not None:
        raise SettingsError("--max-tokens and --min-f1 are two goals.", remedy="Give one or the other.")
    return TuningGoal(max_tokens, min_f1)


def _parse_grid(
    answer: str | None, retrieval_value: str | None, novelty: str | None, corrections: str | None
) -> ThresholdGrid:
    from beliefrag.calibration.tuning import ThresholdGrid

    return ThresholdGrid(
        answer=_parse_numbers("--answer", answer),
        retrieval_value=_parse_numbers("--retrieval-value", retrieval_value),
        novelty=_parse_numbers("--novelty", novelty),
        corrections=_parse_switches(corrections),
    )


def _parse_numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    from beliefrag.errors import SettingsError

    if text is None:
        return None
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 <= value <= 1 for value in values):
        raise SettingsError(
            f"{option} takes numbers between 0 and 1, not {text!r}.", remedy=f"For example {option} 0.3,0.5,0.7."
        )
    return values


def _parse_switches(text: str | None) -> tuple[bool, ...] | None:
    from beliefrag.errors import SettingsError

    if text is None:
        return None
    known = {"on": True, "off": False}
    words = [part.strip().lower() for part in text.split(",")]
    if not set(words) <= known.keys():
        raise SettingsError(f"--corrections takes on, off or on,off, not {text!r}.")
    return tuple(known[word] for word in words)


def _parse_measure(name: str) -> Label:
    from beliefrag.errors import SettingsError
    from beliefrag.runs.states import LABELS

    for label in LABELS:
        if label == name:
            return label
    raise SettingsError(f"There is no measure {name!r}.", remedy=f"Choose one of {', '.join(LABELS)}.")
