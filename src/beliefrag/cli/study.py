"""`beliefrag study`: answers one question about the method, with its numbers, its figure and a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli import options, run_options

__all__ = ["study"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_ABOUT = "What is studied"


def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="mechanism, thresholds, belief, robustness, holobench, frontier, one of another package, or all. "
            "Options of a study can follow it: NAME:key=value,key=value.",
            show_default=False,
        ),
    ],
    further: Annotated[list[Path] | None, typer.Argument(metavar="DIR", hidden=True)] = None,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The folder of the studies, each in a folder of its own; runs that are made go to its folder runs.",
            show_default=False,
        ),
    ],
    data: run_options.Data = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Use the episodes of this existing run instead of making one. Can be given several times.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = None,
    n: run_options.N = None,
    seed: run_options.Seed = 0,
    split: run_options.Split = None,
    label: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The measure that says whether an answer is right: f1 (from one half on), exact_match, cover, or "
            "judge with --judge.",
            rich_help_panel=_ABOUT,
        ),
    ] = "f1",
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="The methods that frontier compares: all, or names with commas between them. By default the nine of "
            "the paper, or those of the run of --from.",
            rich_help_panel=_ABOUT,
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The method that frontier compares with the others. By default beliefrag.",
            rich_help_panel=_ABOUT,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="An option of the study. Can be given several times.",
            rich_help_panel=_ABOUT,
        ),
    ] = None,
    concurrency: run_options.Concurrency = None,
    dry_run: run_options.DryRun = False,
    yes: run_options.Yes = False,
    replay: run_options.Replay = False,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge", metavar="", help="Let a model judge the answers too.", rich_help_panel=run_options.JUDGE
        ),
    ] = False,
    judge_model: run_options.JudgeModel = None,
    judge_base_url: run_options.JudgeBaseUrl = None,
    pack: options.Pack = None,
    model: options.Model = None,
    base_url: options.BaseUrl = None,
    calibration: options.Calibration = None,
    borrow: options.Borrow = None,
    verifier: options.Verifier = None,
    prompts: options.Prompts = None,
    no_cache: options.NoCache = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Make one study, or all: run what it needs, and write its numbers, its figure and a page.

    Stop it in any way and give the same command again: runs go on where they were.

    Example: beliefrag study thresholds --data hotpotqa musique --n 100 --out studies
    """
    from beliefrag.bench.setup import RunSpec
    from beliefrag.calibration.collection import parse_label
    from beliefrag.cli.output import show_status
    from beliefrag.cli.study_runs import make_studies
    from beliefrag.cli.weights import ensure_weights
    from beliefrag.errors import SettingsError
    from beliefrag.settings import load_settings
    from beliefrag.studies.make import prepare_studies
    from beliefrag.studies.study import choose_studies

    if (methods or of) and name.partition(":")[0] not in ("frontier", "all"):
        raise SettingsError(
            f"--methods and --of say what frontier compares; {name} has its own methods.", remedy="Leave them out."
        )
    compared = {key: value for key, value in (("methods", methods), ("of", of)) if value}
    chosen = choose_studies(name, {**_read_options(option or ()), **compared})
    typed = options.collect_settings(
        pack=pack,
        model=model,
        base_url=base_url,
        calibration=calibration,
        borrow=borrow,
        verifier=verifier,
        prompts=prompts,
        no_cache=no_cache,
        concurrency=concurrency,
    )
    settings = load_settings(typed, config=config).settings
    if (judge_model or judge_base_url) and not judge:
        raise SettingsError("A judge is named, and nothing is to be judged.", remedy="Give --judge too.")
    right_by = parse_label(label)
    folders = options.join_docs(data, further) or []
    if not folders and not from_:
        raise SettingsError("A study needs episodes.", remedy="Name datasets with --data, or a run with --from.")
    for_new_runs: dict[str, object] = {"--n": n, "--seed": seed, "--split": split, "--replay": replay, "--judge": judge}
    for_new_runs |= {"--concurrency": concurrency, "--model": model, "--base-url": base_url}
    for_new_runs |= {"--calibration": calibration, "--borrow": borrow, "--prompts": prompts, "--no-cache": no_cache}
    if not folders and (unused := [key for key, value in for_new_runs.items() if value]):
        raise SettingsError(
            f"{', '.join(unused)}: that is for runs that are made, and without --data none is.",
            remedy="Leave it out, or name datasets with --data.",
        )
    if folders and label == "judge" and not judge:
        raise SettingsError("The judge says what is right, and nothing is to be judged.", remedy="Give --judge too.")
    if folders and not (replay or dry_run):
        ensure_weights(settings.model, agreed=yes)
        if judge_model:
            ensure_weights(judge_model, agreed=yes)
    spec = RunSpec(
        n=n,
        seed=seed,
        splits=tuple(split or ()),
        judge=judge,
        judge_model=judge_model,
        judge_base_url=judge_base_url,
        replay=replay,
        preview=dry_run,
    )
    with show_status("reading datasets"):
        prepared = prepare_studies(
            chosen,
            out=out,
            data=folders,
            reuse=from_ or (),
            settings=settings,
            spec=spec,
            label=right_by,
            concurrency=concurrency,
        )
    raise typer.Exit(make_studies(prepared, dry_run=dry_run, yes=yes))


def _read_options(typed: Sequence[str]) -> dict[str, str]:
    from beliefrag.errors import SettingsError

    values: dict[str, str] = {}
    for each in typed:
        key, equals, value = (part.strip() for part in each.partition("="))
        if not (key and equals):
            raise SettingsError(f"--option {each!r} is no option of a study.", remedy="Write it as --option key=value.")
        if key in values:
            raise SettingsError(f"The option {key!r} is given twice.", remedy="Give it once.")
        values[key] = value
    return values
