"""`beliefrag study`: answer one question about the method, with its numbers, its figure and a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.options import GivenSettings, argument, join_paths, option, with_settings
from beliefrag.cli.output import INTERRUPTED, OK, print_notice, print_written, safe_line, show_status

if TYPE_CHECKING:
    from beliefrag.bench.benchmark import PreparedRun
    from beliefrag.bench.plan import Plan
    from beliefrag.studies.make import PreparedStudies


@with_settings("model", "base_url")
def study(
    name: Annotated[str, argument("NAME[:KEY=VALUE,...]", "A study of 'beliefrag config extensions', or all.")],
    further: options.FurtherPaths = None,
    *,
    out: Annotated[Path, option("DIR", "The folder of all studies and their runs.", "--out")],
    data: options.Data = None,
    from_: Annotated[list[Path] | None, option("RUN", "Use the episodes of a run. Repeatable.", "--from")] = None,
    label: Annotated[str, option("NAME", "What makes an answer right: f1, exact_match, cover, judge.")] = "f1",
    methods: Annotated[str | None, option("NAMES", "What frontier compares; by default the paper's.")] = None,
    how: options.RunOptions,
    given: GivenSettings,
) -> None:
    """Make one study, or all: run what it needs, and write its page. Give the same command again to resume.

    Example: beliefrag study thresholds --data hotpotqa musique --n 100 --out studies
    """
    from beliefrag.calibration.examples import parse_label
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
    raise typer.Exit(_make_studies(prepared, yes=how.yes))


def _make_studies(prepared: PreparedStudies, *, yes: bool) -> int:
    """Make the runs that studies need, then each study from the records, then the index; return the exit code."""
    from beliefrag.cli.bench import carry_out, may_call

    for name, why in prepared.left_out.items():
        print_notice(f"{name} is left out: {why}")
    for name, folder in prepared.reusable.items():
        print_notice(f"{folder} stands in for the run {name}")
    plans = _print_previews(prepared)
    if prepared.spec.preview:
        return OK
    if not yes and not may_call(sum(plan.estimate.calls for plan in plans.values()), replay=prepared.spec.replay):
        print_notice("nothing was run")
        return OK
    codes = [OK]

    def play(name: str, planned: PreparedRun) -> bool:
        print_notice(f"run {name}:")
        codes.append(carry_out(planned))
        return codes[-1] != INTERRUPTED

    finished = [name for name, plan in plans.items() if not plan.left]
    recordings = prepared.make_runs(play, finished=finished)
    if recordings is None:
        return INTERRUPTED
    for each in prepared.studies:
        with show_status(f"computing {each.name}"):
            result = prepared.analyse(each, recordings)
        typer.echo(safe_line(each.extension.title))
        for sentence in result.findings:
            typer.echo(safe_line(f"  {sentence}"))
        print_written([prepared.out / each.name / "index.html"])
    prepared.write_index()
    print_written([prepared.out / "index.html"])
    if max(codes) != OK:
        print_notice("some episodes failed; the pages say how many are missing, and the same command tries them again")
    return max(codes)


def _print_previews(prepared: PreparedStudies) -> dict[str, Plan]:
    from beliefrag.bench.benchmark import format_duration

    plans: dict[str, Plan] = {}
    previews = prepared.previews()
    while True:
        with show_status("opening datasets and model"):
            found = next(previews, None)
        if found is None:
            break
        name, preview = found
        for line in (f"run {name}:", *preview.lines):
            print_notice(line)
        plans[name] = preview.plan
    if len(plans) > 1:
        estimates = [plan.estimate for plan in plans.values()]
        calls, seconds = sum(each.calls for each in estimates), sum(each.seconds for each in estimates)
        print_notice(f"all runs together: {calls:,} calls, {format_duration(seconds)}")
    return plans
