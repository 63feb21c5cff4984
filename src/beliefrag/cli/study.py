"""`beliefrag study`: answer one question about the method, with its numbers, its figure and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli.options import FurtherPaths, GivenSettings, join_paths, with_settings
from beliefrag.cli.run_options import Data, RunOptions

__all__ = ["study"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415


@with_settings("model", "base_url")
def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME[:KEY=VALUE,...]",
            help="mechanism, thresholds, belief, robustness, holobench, frontier, one of another package, or all.",
            show_default=False,
        ),
    ],
    further: FurtherPaths = None,
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder of all studies and their runs.", show_default=False)
    ],
    data: Data = None,
    from_: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="RUN", help="Use the episodes of an existing run. Repeatable."),
    ] = None,
    label: Annotated[
        str,
        typer.Option(metavar="NAME", help="What makes an answer right: f1 (at least 0.5), exact_match, cover, judge."),
    ] = "f1",
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="What frontier compares: all, or names with commas; by default the paper's."
        ),
    ] = None,
    how: RunOptions,
    given: GivenSettings,
) -> None:
    """Make one study, or all: run what it needs, and write its numbers, its figure and a page.

    Give the same command again to resume. With --label judge a model judges the answers.

    Example: beliefrag study thresholds --data hotpotqa musique --n 100 --out studies
    """
    from beliefrag.calibration.examples import parse_label
    from beliefrag.cli.output import show_status
    from beliefrag.cli.study_runs import make_studies
    from beliefrag.errors import SettingsError
    from beliefrag.studies.make import prepare_studies
    from beliefrag.studies.study import choose_studies

    if methods and name.partition(":")[0] not in ("frontier", "all"):
        raise SettingsError(f"--methods is for frontier; {name} has its own methods.", remedy="Leave it out.")
    chosen = choose_studies(name, {"methods": methods} if methods else {})
    settings = given.load()
    right_by = parse_label(label)
    folders = join_paths(data, further) or []
    if not folders and not from_:
        raise SettingsError("A study needs episodes.", remedy="Name datasets with --data, or a run with --from.")
    if not folders and (how.n or how.split):
        raise SettingsError(
            "--n and --split are for new runs, and without --data none is made.",
            remedy="Leave them out, or name datasets with --data.",
        )
    spec = how.make_spec(settings, judge=label == "judge" or how.names_judge, download=bool(folders))
    with show_status("reading datasets"):
        prepared = prepare_studies(
            chosen, out=out, data=folders, reuse=from_ or (), settings=settings, spec=spec, label=right_by
        )
    raise typer.Exit(make_studies(prepared, dry_run=how.dry_run, yes=how.yes))
