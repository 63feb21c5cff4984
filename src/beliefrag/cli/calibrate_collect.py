"""`beliefrag calibrate collect`: visits states on labelled questions, and keeps the answer that each would give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options

if TYPE_CHECKING:
    from beliefrag.bench.questions import Dataset

__all__ = ["collect"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_WHAT = "What to visit"
_HOW = "How"
_LABEL = "Judge"


def collect(
    further: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="RUN", help="The folder to collect in, made or gone on with.", show_default=False
        ),
    ],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data",
            metavar="DIR...",
            help="Datasets in the common form; see 'beliefrag data import'.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your own questions with their answers, as CSV, TSV or JSON Lines; needs --docs.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    docs: options.Docs = None,
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
    uncorrected: Annotated[
        bool,
        typer.Option(
            "--uncorrected",
            metavar="",
            help="Visit each question a second time without corrections, so that 'beliefrag tune' can switch them off.",
            rich_help_panel=_WHAT,
        ),
    ] = False,
    no_judge: Annotated[
        bool,
        typer.Option(
            "--no-judge",
            metavar="",
            help="Leave the judge out: F1, EM or cover then say what is right. It can be made up for later.",
            rich_help_panel=_LABEL,
        ),
    ] = False,
    judge_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The judge; by default the model itself.", rich_help_panel=_LABEL),
    ] = None,
    judge_base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The judge's server; by default the model's.", rich_help_panel=_LABEL),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most questions and calls at a time.", rich_help_panel=_HOW),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what is ahead, and end.", rich_help_panel=_HOW)
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", metavar="", help="Do not ask before many calls.", rich_help_panel=_HOW)
    ] = False,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", metavar="", help="Take every reply from the cache, and ask no model.", rich_help_panel=_HOW
        ),
    ] = False,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    verifier: options.Verifier = None,
    prompts: options.Prompts = None,
    no_cache: options.NoCache = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Visit states on labelled questions, with the answer that each would give. Stop it, and give the command again.

    Example: beliefrag calibrate collect --questions asked.csv --docs notes --out runs/mine
    """
    from beliefrag.bench.setup import Wanted
    from beliefrag.cli.bench_run import run as run_
    from beliefrag.cli.weights import ensure_weights
    from beliefrag.errors import SettingsError
    from beliefrag.settings import load_settings

    typed = options.as_settings(
        model=model,
        base_url=base_url,
        verifier=verifier,
        prompts=prompts,
        no_cache=no_cache,
        concurrency=concurrency,
    )
    settings = load_settings(typed, config=config).settings
    if no_judge and (judge_model or judge_base_url):
        raise SettingsError("--no-judge leaves out the judge that was named.", remedy="Give one or the other.")
    if (questions is None) == (not data):
        raise SettingsError(
            "Needs questions with answers.", remedy="Give either --data DIR, or --questions and --docs."
        )
    if questions is not None and not docs:
        raise SettingsError("--questions needs documents to answer from.", remedy="Name them with --docs.")
    wanted = Wanted(
        data=tuple(options.all_docs(data, further) or ()) if data else (),
        methods=("survey", "survey_uncorrected") if uncorrected else ("survey",),
        own=(_own(questions, options.all_docs(docs, further) or []),) if questions else (),
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
    code = run_(settings, wanted, out, at_once=concurrency, dry_run=dry_run, yes=yes)
    if not dry_run:
        _tell(out)
    raise typer.Exit(code)


def _own(questions: Path, docs: list[Path]) -> Dataset:
    from beliefrag.bench.datasets.own import own_dataset
    from beliefrag.cli.opening import busy
    from beliefrag.paths import cache_dir
    from beliefrag.retrieval import docs_index

    with busy("reading documents"):
        index, _ = docs_index(docs, cache_dir())
        return own_dataset(questions, index.first(len(index)))


def _tell(out: Path) -> None:
    """What there is to fit on, by part."""
    from beliefrag.cli.terminal import print_table
    from beliefrag.fitting.overview import HEADINGS, overview
    from beliefrag.fitting.states import read_trajectories

    _, trajectories = read_trajectories(out)
    print_table(HEADINGS, overview(trajectories))
