"""`beliefrag bench`: runs methods on benchmarks, reports the numbers with intervals, compares two methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, run_options
from beliefrag.cli.command_group import CommandGroup
from beliefrag.cli.labelled_questions import QuestionOptions

if TYPE_CHECKING:
    from beliefrag.bench import MethodComparison

__all__ = ["app", "print_comparison"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = CommandGroup(help="Run methods on datasets, report their numbers and compare them.", no_args_is_help=True)

_IMPERFECT = "Imperfect evidence"
_Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]


@app.command()
@options.with_option_groups
def run(
    further: options.FurtherPaths = None,
    *,
    out: run_options.Out,
    asked: QuestionOptions,
    methods: Annotated[
        str,
        typer.Option(
            "--methods",
            "--method",
            metavar="NAMES",
            help="The methods to run: all, or names with commas between them. Options follow a name: NAME:key=value.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = "all",
    search: options.SearchOptions,
    sample: run_options.SampleOptions,
    noise: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Put irrelevant passages in the place of this share of what each search finds, 0.4 for instance.",
            rich_help_panel=_IMPERFECT,
        ),
    ] = 0.0,
    counterfactual: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Put false passages in the place of up to this share of the hits: the dataset's own false passages, "
            "or hits in which the answer is exchanged for another one.",
            rich_help_panel=_IMPERFECT,
        ),
    ] = 0.0,
    how: run_options.RunOptions,
    on: run_options.On = None,
    no_judge: run_options.NoJudge = False,
    judge: run_options.JudgeOptions,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    risk: options.RiskOptions,
    prompts: options.PromptOptions,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Run methods on datasets. Stop it in any way and give the same command again: it goes on where it was.

    Example: beliefrag bench run --data hotpotqa --methods static,beliefrag --n 100 --out runs/first
    """
    from dataclasses import replace

    from beliefrag.bench.perturbation import Injection
    from beliefrag.bench.setup import choose_methods
    from beliefrag.cli.bench_run import run as run_

    settings = options.read_settings(
        search, model, calibration, risk, prompts, config=config, concurrency=how.concurrency
    )
    run_options.check_judge_options(no_judge, judge)
    injection = Injection(noise, counterfactual, sample.seed)
    folders, own = asked.read(further)
    spec = replace(
        run_options.make_run_spec(sample, how, judge, judged=not no_judge),
        data=folders,
        methods=choose_methods(methods),
        datasets=own,
        injection=injection,
    )
    run_options.ensure_run_weights(settings, how, judge)
    raise typer.Exit(run_(settings, spec, out, at_once=how.concurrency, on=on, dry_run=how.dry_run, yes=how.yes))


@app.command()
def report(
    run: _Run,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where to write the report; by default report in the run's folder."),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Print a run's numbers, and write them as Markdown, CSV, LaTeX and one HTML page. No model is asked.

    Example: beliefrag bench report runs/first
    """
    from beliefrag import bench
    from beliefrag.cli.output import print_notice, print_table, safe_line

    # The files come first: whoever reads only the first lines of the output still gets all of them.
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
    allow_unequal: Annotated[
        bool,
        typer.Option(
            "--allow-unequal",
            metavar="",
            help="Compare on the questions that both finished, where they did not finish the same ones.",
        ),
    ] = False,
    debug: options.Debug = False,
) -> None:
    """Compare two methods on the same questions: the difference A minus B in F1 and in tokens, with intervals.

    Example: beliefrag bench compare runs/first beliefrag iterative
    """
    from beliefrag import bench

    print_comparison(bench.compare(run, first, second, allow_unequal=allow_unequal))


def print_comparison(found: MethodComparison) -> None:
    """Prints one line per dataset and measure, and before them what a reader must know."""
    from beliefrag.cli.output import print_notice, print_table

    for warning in found.warnings:
        print_notice(warning)
    print_table(found.table.headings, found.table.texts)
