"""`beliefrag calibrate collect`: visits states on labelled questions, and keeps the answer that each would give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, run_options
from beliefrag.cli.labelled_questions import Questions, labelled_questions

if TYPE_CHECKING:
    from beliefrag.runs.partitions import Partition

__all__ = ["collect"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


def collect(
    further: Annotated[list[Path] | None, typer.Argument(metavar="PATH", hidden=True)] = None,
    *,
    out: run_options.Out,
    data: run_options.Data = None,
    questions: Questions = None,
    docs: options.Docs = None,
    n: run_options.N = None,
    seed: run_options.Seed = 0,
    split: run_options.Split = None,
    part: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Questions of this part only, xfit, xsel or xhold; can be given again. Without xhold a small budget "
            "goes to the fit, and its quality is told by other states.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = None,
    uncorrected: Annotated[
        bool,
        typer.Option(
            "--uncorrected",
            metavar="",
            help="Visit each question a second time without corrections, so that 'beliefrag tune' can switch them off.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = False,
    concurrency: run_options.Concurrency = None,
    dry_run: run_options.DryRun = False,
    yes: run_options.Yes = False,
    replay: run_options.Replay = False,
    no_judge: run_options.NoJudge = False,
    judge_model: run_options.JudgeModel = None,
    judge_base_url: run_options.JudgeBaseUrl = None,
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
    from beliefrag.bench import RunSpec
    from beliefrag.calibrate import collection_spec
    from beliefrag.cli.bench_run import run
    from beliefrag.cli.weights import ensure_weights
    from beliefrag.settings import load_settings

    typed = options.collect_settings(
        model=model,
        base_url=base_url,
        verifier=verifier,
        prompts=prompts,
        no_cache=no_cache,
        concurrency=concurrency,
    )
    settings = load_settings(typed, config=config).settings
    run_options.check_judge_options(no_judge, judge_model, judge_base_url)
    folders, own = labelled_questions(data, questions, docs, further)
    spec = RunSpec(
        data=folders,
        datasets=own,
        n=n,
        seed=seed,
        splits=tuple(split or ()),
        parts=tuple(_parse_part(name) for name in part or ()),
        judge=not no_judge,
        judge_model=judge_model,
        judge_base_url=judge_base_url,
        replay=replay,
        preview=dry_run,
    )
    if not (replay or dry_run):
        ensure_weights(settings.model, agreed=yes)
        if judge_model:
            ensure_weights(judge_model, agreed=yes)
    states = collection_spec(spec, uncorrected=uncorrected)
    code = run(settings, states, out, at_once=concurrency, dry_run=dry_run, yes=yes)
    if not dry_run:
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
