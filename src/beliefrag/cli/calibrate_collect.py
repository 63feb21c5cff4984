"""`beliefrag calibrate collect`: records states on labelled questions, and the answer that each would give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import FurtherPaths, GivenSettings, with_settings
from beliefrag.cli.run_options import LabelledQuestions, NoJudge, Out, RunOptions

if TYPE_CHECKING:
    from beliefrag.runs.partitions import Partition

__all__ = ["collect"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415


@with_settings("model", "base_url")
def collect(
    further: FurtherPaths = None,
    *,
    out: Out,
    asked: LabelledQuestions,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Questions of this part only: xfit (to fit on), xsel (to choose on) or xhold (held out, to measure "
            "on), as a hash of the id divides them; can be given again. Without xhold a small budget goes to the fit, "
            "and its quality must be measured on other states.",
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The method whose states are recorded: beliefrag or lean.",
        ),
    ] = "beliefrag",
    reads_only: Annotated[
        bool, typer.Option("--reads-only", help="With lean: read once, and fit no value of searches.", hidden=True)
    ] = False,
    how: RunOptions,
    no_judge: NoJudge = False,
    given: GivenSettings,
) -> None:
    """Record the states of a method on labelled questions, and the answer at each. Give the command again to go on.

    Example: beliefrag calibrate collect --questions asked.csv --docs notes --out runs/mine
    """
    from dataclasses import replace

    from beliefrag.calibrate import collection_spec
    from beliefrag.cli.bench_run import run

    settings = given.load()
    folders, own = asked.read(further)
    spec = replace(
        how.make_spec(settings, judge=not no_judge),
        data=folders,
        datasets=own,
        parts=tuple(_parse_part(name) for name in part or ()),
    )
    states = collection_spec(spec, method=method, searches=not reads_only)
    code = run(settings, states, out, dry_run=how.dry_run, yes=how.yes)
    if not how.dry_run:
        _print_counts(out)
    raise typer.Exit(code)


def _parse_part(name: str) -> Partition:
    from beliefrag.runs.partitions import Partition

    try:
        return Partition(name)
    except ValueError:
        raise typer.BadParameter(f"{name!r} is not xfit, xsel or xhold", param_hint="--part") from None


def _print_counts(out: Path) -> None:
    """Prints what there is to fit on, by part."""
    from beliefrag.cli.output import print_table
    from beliefrag.report.calibration_tables import state_counts_table
    from beliefrag.runs.states import read_trajectories

    _, trajectories = read_trajectories(out)
    table = state_counts_table(trajectories)
    print_table(table.headings, table.texts)
