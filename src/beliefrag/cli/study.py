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


@options.with_option_groups
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
    further: options.FurtherFolders = None,
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
    sample: run_options.SampleOptions,
    label: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The measure that says whether an answer is right: f1 (from one half on), exact_match, cover, or "
            "judge.",
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
    how: run_options.RunOptions,
    judge: Annotated[
        bool | None,
        typer.Option(
            "--judge/--no-judge",
            metavar="",
            help="Whether a model judges the answers too. By default it does with --label judge, which needs it; "
            "'bench run' always lets it, unless --no-judge is given.",
            rich_help_panel=run_options.JUDGE,
        ),
    ] = None,
    judge_options: run_options.JudgeOptions,
    search: options.SearchOptions,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    prompts: options.PromptOptions,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Make one study, or all: run what it needs, and write its numbers, its figure and a page.

    Stop it in any way and give the same command again: runs go on where they were.

    Example: beliefrag study thresholds --data hotpotqa musique --n 100 --out studies
    """
    from dataclasses import asdict, replace

    from beliefrag.calibration.collection import parse_label
    from beliefrag.cli.output import show_status
    from beliefrag.cli.study_runs import make_studies
    from beliefrag.errors import SettingsError
    from beliefrag.studies.make import prepare_studies
    from beliefrag.studies.study import choose_studies

    if (methods or of) and name.partition(":")[0] not in ("frontier", "all"):
        raise SettingsError(
            f"--methods and --of say what frontier compares; {name} has its own methods.", remedy="Leave them out."
        )
    compared = {key: value for key, value in (("methods", methods), ("of", of)) if value}
    chosen = choose_studies(name, {**_read_options(option or ()), **compared})
    settings = options.read_settings(search, model, calibration, prompts, config=config, concurrency=how.concurrency)
    right_by = parse_label(label)
    judged = judge
    if judged is None:
        judged = label == "judge" or judge_options.is_named
    run_options.check_judge_options(not judged, judge_options)
    folders = options.join_docs(data, further) or []
    if not folders and not from_:
        raise SettingsError("A study needs episodes.", remedy="Name datasets with --data, or a run with --from.")
    for_new_runs = {**asdict(sample), "replay": how.replay, "judge": judge, "concurrency": how.concurrency}
    for group in (search, model, calibration, replace(prompts, verifier=None)):
        for_new_runs |= asdict(group)
    if not folders and (unused := [f"--{key.replace('_', '-')}" for key, value in for_new_runs.items() if value]):
        raise SettingsError(
            f"{', '.join(unused)}: that is for runs that are made, and without --data none is.",
            remedy="Leave it out, or name datasets with --data.",
        )
    if folders and label == "judge" and not judged:
        raise SettingsError("--label judge needs the judge.", remedy="Leave out --no-judge.")
    if folders:
        run_options.ensure_run_weights(settings, how, judge_options)
    spec = run_options.make_run_spec(sample, how, judge_options, judged=judged)
    with show_status("reading datasets"):
        prepared = prepare_studies(
            chosen,
            out=out,
            data=folders,
            reuse=from_ or (),
            settings=settings,
            spec=spec,
            label=right_by,
            concurrency=how.concurrency,
        )
    raise typer.Exit(make_studies(prepared, dry_run=how.dry_run, yes=how.yes))


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
