"""`beliefrag calibrate collect`: records states on labelled questions, and the answer that each would give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, run_options
from beliefrag.cli.labelled_questions import QuestionOptions

if TYPE_CHECKING:
    from beliefrag.runs.partitions import Partition

__all__ = ["collect"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


@options.with_option_groups
def collect(
    further: options.FurtherPaths = None,
    *,
    out: run_options.Out,
    asked: QuestionOptions,
    sample: run_options.SampleOptions,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Questions of this part only: xfit (to fit on), xsel (to choose on) or xhold (held out, to measure "
            "on), as a hash of the id divides them; can be given again. Without xhold a small budget goes to the fit, "
            "and its quality must be measured on other states.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The method whose states are recorded: beliefrag or lean.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = "beliefrag",
    uncorrected: Annotated[
        bool,
        typer.Option(
            "--uncorrected",
            metavar="",
            help="Ask each question a second time without corrections, so that 'beliefrag tune' can switch them off.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = False,
    reads_only: run_options.ReadsOnly = False,
    how: run_options.RunOptions,
    no_judge: run_options.NoJudge = False,
    judge: run_options.JudgeOptions,
    search: options.SearchOptions,
    model: options.ModelOptions,
    prompts: options.PromptOptions,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Record the states of a method on labelled questions, and the answer at each. Give the command again to go on.

    Example: beliefrag calibrate collect --questions asked.csv --docs notes --out runs/mine
    """
    from dataclasses import replace

    from beliefrag.calibrate import collection_spec
    from beliefrag.cli.bench_run import run

    settings = options.read_settings(search, model, prompts, config=config, concurrency=how.concurrency)
    run_options.check_judge_options(no_judge, judge)
    folders, own = asked.read(further)
    spec = replace(
        run_options.make_run_spec(sample, how, judge, judged=not no_judge),
        data=folders,
        datasets=own,
        parts=tuple(_parse_part(name) for name in part or ()),
    )
    run_options.ensure_run_weights(settings, how, judge)
    states = collection_spec(spec, method=method, uncorrected=uncorrected, searches=not reads_only)
    code = run(settings, states, out, at_once=how.concurrency, dry_run=how.dry_run, yes=how.yes)
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
