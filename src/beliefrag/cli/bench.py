"""`beliefrag bench`: runs methods on benchmarks, reports the numbers with intervals, compares two methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, run_options
from beliefrag.cli.labelled_questions import Questions, labelled_questions

if TYPE_CHECKING:
    from beliefrag.bench import MethodComparison

__all__ = ["app", "print_comparison"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Benchmarks: run methods on datasets, report and compare.", no_args_is_help=True)

_IMPERFECT = "Imperfect evidence"
_Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]


@app.command()
def run(
    further: Annotated[list[Path] | None, typer.Argument(metavar="DIR", hidden=True)] = None,
    *,
    out: run_options.Out,
    data: run_options.Data = None,
    questions: Questions = None,
    docs: options.Docs = None,
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="all, or names with commas between, each with options as NAME:key=value if wanted.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = "all",
    retriever: options.Retriever = None,
    pack: options.Pack = None,
    n: run_options.N = None,
    seed: run_options.Seed = 0,
    split: run_options.Split = None,
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
            help="Put false passages in the place of up to this share of it: the dataset's own, or hits with another "
            "answer written over theirs.",
            rich_help_panel=_IMPERFECT,
        ),
    ] = 0.0,
    concurrency: run_options.Concurrency = None,
    dry_run: run_options.DryRun = False,
    yes: run_options.Yes = False,
    replay: run_options.Replay = False,
    no_judge: run_options.NoJudge = False,
    judge_model: run_options.JudgeModel = None,
    judge_base_url: run_options.JudgeBaseUrl = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    calibration: options.Calibration = None,
    borrow: options.Borrow = None,
    max_error: options.MaxError = None,
    confidence: options.Confidence = None,
    verifier: options.Verifier = None,
    prompts: options.Prompts = None,
    no_cache: options.NoCache = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Run methods on datasets. Stop it in any way and give the same command again: it goes on where it was.

    Example: beliefrag bench run --data hotpotqa --methods static,beliefrag --n 100 --out runs/first
    """
    from beliefrag.bench.perturbation import Injection
    from beliefrag.bench.setup import RunSpec, choose_methods
    from beliefrag.cli.bench_run import run as run_
    from beliefrag.cli.weights import ensure_weights
    from beliefrag.settings import load_settings

    typed = options.collect_settings(
        retriever=retriever,
        pack=pack,
        model=model,
        base_url=base_url,
        calibration=calibration,
        borrow=borrow,
        max_error=max_error,
        confidence=confidence,
        verifier=verifier,
        prompts=prompts,
        no_cache=no_cache,
        concurrency=concurrency,
    )
    settings = load_settings(typed, config=config).settings
    if confidence is not None and settings.max_error is None:
        raise typer.BadParameter(
            "it is the probability with which --max-error must hold, and --max-error is missing",
            param_hint="--confidence",
        )
    run_options.check_judge_options(no_judge, judge_model, judge_base_url)
    injection = Injection(noise, counterfactual, seed)
    folders, own = labelled_questions(data, questions, docs, further)
    spec = RunSpec(
        data=folders,
        methods=choose_methods(methods),
        datasets=own,
        n=n,
        seed=seed,
        splits=tuple(split or ()),
        judge=not no_judge,
        judge_model=judge_model,
        judge_base_url=judge_base_url,
        injection=injection,
        replay=replay,
        preview=dry_run,
    )
    if not (replay or dry_run):
        ensure_weights(settings.model, agreed=yes)
        if judge_model:
            ensure_weights(judge_model, agreed=yes)
    raise typer.Exit(run_(settings, spec, out, at_once=concurrency, dry_run=dry_run, yes=yes))


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
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.", show_default=False)],
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
