"""`beliefrag study`: answers one question about the method, with its numbers, its figure and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, run_options

if TYPE_CHECKING:
    from beliefrag.settings import Settings
    from beliefrag.studies.study import StudyOptions

__all__ = ["study"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_ABOUT = "What is studied"


def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="mechanism, thresholds, belief, robustness, holobench, frontier, or all.",
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
            help="Where studies are written, each into a folder of its own; the runs made for them into runs.",
            show_default=False,
        ),
    ],
    data: run_options.Data = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Take the episodes of this run in place of making one; can be given again.",
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
            help="What says that an answer is right: f1 (from one half on), exact_match, cover, or judge with --judge.",
            rich_help_panel=_ABOUT,
        ),
    ] = "f1",
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="What frontier compares: all, or names with commas between. By default the nine of the paper, or "
            "what the run of --from has.",
            rich_help_panel=_ABOUT,
        ),
    ] = None,
    of: Annotated[
        str,
        typer.Option(metavar="NAME", help="The method that frontier compares with the others.", rich_help_panel=_ABOUT),
    ] = "beliefrag",
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
    from beliefrag.cli.study_making import make_studies
    from beliefrag.cli.study_runs import Making, Sources
    from beliefrag.cli.weights import ensure_weights
    from beliefrag.errors import SettingsError
    from beliefrag.settings import load_settings
    from beliefrag.studies.catalogue import studies_named

    chosen = studies_named(name)
    if (methods or of != "beliefrag") and not any(each.name == "frontier" for each in chosen):
        raise SettingsError(
            f"--methods and --of say what frontier compares; {name} has its own methods.", remedy="Leave them out."
        )
    typed = options.collect_settings(
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
    asked = _asked(settings, label=label, methods=methods, of=of)
    folders = options.join_docs(data, further) or []
    if not folders and not from_:
        raise SettingsError("A study needs episodes.", remedy="Name datasets with --data, or a run with --from.")
    makes: dict[str, object] = {"--n": n, "--seed": seed, "--split": split, "--replay": replay, "--judge": judge}
    makes |= {"--concurrency": concurrency, "--model": model, "--base-url": base_url, "--calibration": calibration}
    makes |= {"--borrow": borrow, "--prompts": prompts, "--no-cache": no_cache}
    if not folders and (idle := [option for option, value in makes.items() if value]):
        raise SettingsError(
            f"{', '.join(idle)}: that is for runs that are made, and without --data none is.",
            remedy="Leave it out, or name datasets with --data.",
        )
    if folders and label == "judge" and not judge:
        raise SettingsError("The judge says what is right, and nothing is to be judged.", remedy="Give --judge too.")
    if folders and not (replay or dry_run):
        ensure_weights(settings.model, agreed=yes)
        if judge_model:
            ensure_weights(judge_model, agreed=yes)
    wanted = RunSpec(
        data=(),
        methods=(),
        n=n,
        seed=seed,
        splits=tuple(split or ()),
        judge=judge,
        judge_model=judge_model,
        judge_base_url=judge_base_url,
        replay=replay,
        preview=dry_run,
    )
    making = Making(settings, wanted, out, at_once=concurrency, dry_run=dry_run, yes=yes)
    raise typer.Exit(make_studies(chosen, asked, Sources.open(from_ or (), folders), making, one=len(chosen) == 1))


def _asked(settings: Settings, *, label: str, methods: str | None, of: str) -> StudyOptions:
    from beliefrag.bench.setup import choose_methods
    from beliefrag.calibration.collection import parse_label
    from beliefrag.models import default_verifier
    from beliefrag.studies.study import StudyOptions

    named = choose_methods(methods) if methods else None
    return StudyOptions(
        label=parse_label(label),
        of=choose_methods(of)[0],
        methods=named,
        drafts=(settings.verifier or default_verifier(settings.model)) == "probability",
    )
