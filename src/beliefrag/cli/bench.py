"""`beliefrag bench`: runs methods on benchmarks, reports the numbers with intervals, compares two methods."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli import options

__all__ = ["app"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Benchmarks: run methods on datasets, report and compare.", no_args_is_help=True)

_WHAT = "What to run"
_HOW = "How to run it"
_JUDGE = "Judge"
_Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.", show_default=False)]


@app.command()
def run(
    further: Annotated[list[Path] | None, typer.Argument(metavar="DIR", hidden=True)] = None,
    *,
    data: Annotated[
        list[Path],
        typer.Option(
            "--data",
            metavar="DIR...",
            help="Datasets in the common form; see 'beliefrag data import'.",
            rich_help_panel=_WHAT,
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="RUN",
            help="The run's folder, made or gone on with.",
            rich_help_panel=_WHAT,
            show_default=False,
        ),
    ],
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="all, or names with commas between.", rich_help_panel=_WHAT)
    ] = "all",
    n: Annotated[
        int | None,
        typer.Option(
            "--n", metavar="N", min=1, help="Questions of each dataset; all by default.", rich_help_panel=_WHAT
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(metavar="S", help="Which questions are drawn; the same everywhere.", rich_help_panel=_WHAT)
    ] = 0,
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Questions of this split only; can be given again.", rich_help_panel=_WHAT),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Most calls at a time; the server's own rate is found. 1 for an embedded model.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what is ahead, and end.", rich_help_panel=_HOW)
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", metavar="", help="Do not ask before a large run.", rich_help_panel=_HOW)
    ] = False,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", metavar="", help="Take every reply from the cache, and ask no model.", rich_help_panel=_HOW
        ),
    ] = False,
    no_judge: Annotated[
        bool,
        typer.Option(
            "--no-judge",
            metavar="",
            help="Leave the judge out; the same command without it judges later.",
            rich_help_panel=_JUDGE,
        ),
    ] = False,
    judge_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The judge; by default the run's model.", rich_help_panel=_JUDGE),
    ] = None,
    judge_base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The judge's server; by default the run's.", rich_help_panel=_JUDGE),
    ] = None,
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
    from beliefrag.bench.setup import Wanted, chosen_methods
    from beliefrag.cli.bench_run import run as run_
    from beliefrag.cli.weights import ensure_weights
    from beliefrag.errors import SettingsError
    from beliefrag.settings import load_settings

    typed = options.as_settings(
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
            "it says how surely --max-error is kept to, which is missing", param_hint="--confidence"
        )
    if no_judge and (judge_model or judge_base_url):
        raise SettingsError("--no-judge leaves out the judge that was named.", remedy="Give one or the other.")
    wanted = Wanted(
        data=tuple(options.all_docs(data, further) or ()),
        methods=chosen_methods(methods),
        n=n,
        seed=seed,
        splits=tuple(split or ()),
        judge=not no_judge,
        judge_model=judge_model,
        judge_base_url=judge_base_url,
        replay=replay,
    )
    if not (replay or dry_run):
        ensure_weights(settings.model, agreed=yes)
        if judge_model:
            ensure_weights(judge_model, agreed=yes)
    raise typer.Exit(run_(settings, wanted, out, at_once=concurrency, dry_run=dry_run, yes=yes))


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
    from beliefrag.bench.report import HEADINGS, costs, rows, write_report
    from beliefrag.bench.summary import summarise
    from beliefrag.cli.notices import say
    from beliefrag.cli.safe import shown
    from beliefrag.cli.terminal import print_table

    summary = summarise(run)
    # The files come first: whoever reads only the first lines of the output still gets all of them.
    written = write_report(summary, out or run / "report")
    typer.echo(shown(summary.first_line))
    print_table(HEADINGS, rows(summary))
    for what, words in costs(summary):
        say(f"{what}: {words}")
    for path in written:
        say(f"written: {path}")


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
    from beliefrag.bench.comparison import compare_methods
    from beliefrag.cli.bench_comparison import print_comparison

    print_comparison(compare_methods(run, first, second, allow_unequal=allow_unequal), first, second)
