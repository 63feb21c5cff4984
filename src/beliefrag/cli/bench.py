"""`beliefrag bench`: run methods on benchmarks, report the numbers with intervals, compare two methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli.options import FurtherPaths, GivenSettings, flag, with_settings
from beliefrag.cli.run_options import LabelledQuestions, NoJudge, Out, RunOptions

__all__ = ["app"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Run methods on datasets, report their numbers and compare them.", no_args_is_help=True)

_Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]


@app.command()
@with_settings("model", "base_url")
def run(
    further: FurtherPaths = None,
    *,
    out: Out,
    asked: LabelledQuestions,
    methods: Annotated[
        str,
        typer.Option(
            "--methods", "--method", metavar="NAMES", help="'all', or names with commas: NAME or NAME:key=value."
        ),
    ] = "all",
    how: RunOptions,
    replay: Annotated[bool, flag("--replay", "Take every reply from the cache, and ask no model.")] = False,
    on: Annotated[
        str | None, typer.Option("--on", metavar="PLACE", help="'ray' or 'ray:ADDRESS': run on a Ray cluster.")
    ] = None,
    no_judge: NoJudge = False,
    given: GivenSettings,
) -> None:
    """Run methods on datasets. Give the same command again to resume a run that was interrupted.

    Example: beliefrag bench run --data hotpotqa --methods static,beliefrag --n 100 --out runs/first
    """
    from dataclasses import replace

    from beliefrag.bench.setup import choose_methods
    from beliefrag.cli.bench_run import run as run_

    settings = given.load()
    how = replace(how, replay=replay or how.replay)
    folders, own = asked.read(further)
    spec = replace(
        how.make_spec(settings, judge=not no_judge), data=folders, methods=choose_methods(methods), datasets=own
    )
    raise typer.Exit(run_(settings, spec, out, on=on, dry_run=how.dry_run, yes=how.yes))


@app.command()
def report(
    run: _Run,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to write; by default report in the run's folder.")
    ] = None,
) -> None:
    """Print a run's numbers, and write them as Markdown, CSV, LaTeX and HTML. No model is asked.

    Example: beliefrag bench report runs/first
    """
    from beliefrag import bench
    from beliefrag.cli.output import print_notice, print_table, safe_line

    # The files come first, so that a reader who closes the output early still has them.
    found = bench.report(run, out=out or run / "report")
    typer.echo(safe_line(found.summary.first_line))
    print_table(found.results.headings, found.results.texts)
    for note in found.notes:
        print_notice(f"note: {note}")
    for what, words in found.costs.items():
        print_notice(f"{what}: {words}")
    for path in found.files:
        print_notice(f"written: {path}")


@app.command()
def compare(
    run: _Run,
    first: Annotated[str, typer.Argument(metavar="A", help="A method of the run.", show_default=False)],
    second: Annotated[str, typer.Argument(metavar="B", help="Another method of the run.", show_default=False)],
    allow_unequal: Annotated[bool, flag("--allow-unequal", "Compare on the questions that both finished.")] = False,
) -> None:
    """Compare two methods on the same questions: the difference A minus B in F1 and tokens, with intervals.

    Example: beliefrag bench compare runs/first beliefrag iterative
    """
    from beliefrag import bench
    from beliefrag.cli.output import print_notice, print_table

    found = bench.compare(run, first, second, allow_unequal=allow_unequal)
    for warning in found.warnings:
        print_notice(warning)
    print_table(found.table.headings, found.table.texts)
