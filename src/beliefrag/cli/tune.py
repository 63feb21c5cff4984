"""`beliefrag tune`: choose thresholds from the recorded states of a run, without asking a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli.options import GivenSettings, with_settings

__all__ = ["tune"]

# The command imports what it needs itself, so that `beliefrag --help` stays fast.
# ruff: noqa: PLC0415


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
        typer.Option(metavar="N", min=0, help="Choose the greatest mean F1 at no more mean tokens per question."),
    ] = None,
    min_f1: Annotated[
        float | None,
        typer.Option("--min-f1", metavar="X", min=0, max=1, help="Choose the fewest tokens at no less mean F1."),
    ] = None,
    measure: Annotated[
        str, typer.Option(metavar="NAME", help="Use f1, exact_match, cover or judge in place of F1.")
    ] = "f1",
    answer: Annotated[
        list[float] | None,
        typer.Option(metavar="X", min=0, max=1, help="Try this answer threshold (repeatable); default 0.05 to 0.95."),
    ] = None,
    retrieval_value: Annotated[
        list[float] | None,
        typer.Option(metavar="X", min=0, max=1, help="Try this retrieval threshold (repeatable); default 0.02 to 0.5."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The CSV file to write; by default tune.csv in the run.")
    ] = None,
    given: GivenSettings,
) -> None:
    """Choose thresholds from a run's recorded states: the best answers for a token budget, or the cheapest good ones.

    No model is asked. Thresholds are chosen on one part of the questions (xsel) and reported on another (xhold).

    Example: beliefrag tune runs/states --max-tokens 4000
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import FAILED, print_notice, print_table, show_status
    from beliefrag.report.table import format_number
    from beliefrag.settings import load_settings

    settings = load_settings(given.values, config=given.config).settings
    with show_status("trying thresholds"):
        found = calibrate.tune(
            run,
            max_tokens=max_tokens,
            min_quality=min_f1,
            measure=measure,
            answer=answer,
            retrieval_value=retrieval_value,
            calibration=settings.calibration,
            borrow=settings.borrow,
            out=out or run / "tune.csv",
        )
    tuning = found.found
    for note in found.warnings:
        print_notice(f"warning: {note}")
    (table,) = found.tables
    # The frontier, the current thresholds and what was checked; the file has all settings.
    print_table(table.headings, [row for row in table.texts if row[1]])
    if tuning.differences:
        quality, tokens = tuning.differences
        typer.echo(f"chosen minus current on xhold: {format_number(quality)}, {format_number(tokens, ',.0f')} tokens")
    if tuning.chosen:
        typer.echo(f"\nFor the settings file:\n{tuning.to_toml()}")
    print_notice(f"written: {found.files[0]}")
    if tuning.chosen is None and (max_tokens is not None or min_f1 is not None):
        print_notice("error: no setting reaches the goal")
        raise typer.Exit(FAILED)
