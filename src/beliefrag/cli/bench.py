"""`beliefrag bench` and `study`: run methods on benchmarks, report and compare them, and study the method.

The progress of a run goes to standard error: a bar on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import beliefrag
from beliefrag.cli import options, output
from beliefrag.cli.options import GivenSettings, argument, flag, join_paths, option, with_settings
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.bench.benchmark import PreparedRun, Run, RunProgress
    from beliefrag.bench.plan import Plan
    from beliefrag.bench.setup import RunSpec
    from beliefrag.settings import Settings
    from beliefrag.studies.make import PreparedStudies

_MANY_CALLS = 1_000
"""From this many model calls on, a person is asked before they are made."""

app = typer.Typer(help="Run methods on datasets, report their numbers and compare them.", no_args_is_help=True)

_Run = Annotated[Path, argument("RUN", "The folder of a run.")]


@app.command()
@with_settings("model", "base_url", "profile")
def run(
    further: options.FurtherPaths = None,
    *,
    out: options.Out,
    asked: options.LabelledQuestions,
    methods: Annotated[
        str | None,
        option("NAMES", "'all', or names with commas; for your questions what 'ask' does.", "--methods", "--method"),
    ] = None,
    how: options.RunOptions,
    replay: Annotated[bool, flag("--replay", "Take every reply from the cache, and ask no model.")] = False,
    on: Annotated[str | None, option("PLACE", "'ray' or 'ray:ADDRESS': a Ray cluster.", "--on", hidden=True)] = None,
    no_judge: options.NoJudge = False,
    given: GivenSettings,
) -> None:
    """Run methods on datasets. The same command resumes an interrupted run.

    With your own questions and no --methods, they are asked as 'beliefrag ask' does, and each answer is checked.

    Example: beliefrag bench run --data hotpotqa --methods static,beliefrag --n 100 --out runs/first
    """
    from beliefrag.bench.setup import choose_methods
    from beliefrag.runs.run_files import EPISODES_FILE

    settings = given.load()
    how = replace(how, replay=replay or how.replay)
    folders, own = asked.read(further)
    as_asked = bool(own) and methods is None
    spec = how.make_spec(settings, judge=how.names_judge if as_asked else not no_judge)
    chosen = (settings.method,) if as_asked else choose_methods(methods or "all")
    spec = replace(spec, data=folders, methods=chosen, datasets=own, declines=as_asked)
    code = carry_out_run(settings, spec, out, on=on, yes=how.yes)
    if how.dry_run or not (out / EPISODES_FILE).exists():
        raise typer.Exit(code)
    if as_asked:
        found = beliefrag.bench.check_answers(out, own[0])
        output.print_report(found.tables)
        output.print_notice(*found.warnings)
    else:
        output.print_notice(f"see the numbers with: {shlex.join(['beliefrag', 'bench', 'report', str(out)])}")
    raise typer.Exit(code)


@app.command()
def report(
    run: _Run,
    out: Annotated[Path | None, option("DIR", "Where to write; by default report in the run's folder.")] = None,
) -> None:
    """Print a run's numbers, and write them as Markdown, CSV and HTML. No model is asked.

    Example: beliefrag bench report runs/first
    """
    # The files come first so that a reader who closes the output early still has them.
    found = beliefrag.bench.report(run, out=out or run / "report")
    first_line, *notes = found.warnings
    typer.echo(output.safe_line(first_line))
    output.print_table(found.tables[0].headings, found.tables[0].texts)
    for note in notes:
        output.print_notice(note)
    output.print_written(found.files)


@app.command()
def compare(
    run: _Run,
    first: Annotated[str, argument("A", "A method of the run.")],
    second: Annotated[str, argument("B", "Another method of the run.")],
    allow_unequal: Annotated[bool, flag("--allow-unequal", "Compare on the questions that both finished.")] = False,
) -> None:
    """Compare two methods on the same questions: the difference A minus B in F1 and tokens, with intervals.

    Example: beliefrag bench compare runs/first beliefrag iterative
    """
    found = beliefrag.bench.compare(run, first, second, allow_unequal=allow_unequal)
    for warning in found.warnings:
        output.print_notice(warning)
    output.print_table(found.tables[0].headings, found.tables[0].texts)


def carry_out_run(settings: Settings, spec: RunSpec, out: Path, *, on: str | None = None, yes: bool) -> int:
    """Print what is ahead, ask before a large run, carry it out, and return the exit code."""
    from beliefrag.ray_cluster import check_place

    if on is not None:
        check_place(on)
    with output.show_status("opening datasets and model"):
        prepared = beliefrag.bench.prepare_run(spec, out=out, settings=settings)
    for line in prepared.describe():
        output.print_notice(line)
    if spec.preview:
        return output.OK
    if not yes and not may_call(prepared.plan.estimate.calls, replay=spec.replay):
        output.print_notice("nothing was run")
        return output.OK
    return carry_out(prepared, on=on)


def may_call(calls: int, *, replay: bool) -> bool:
    """Return whether this many calls may be made. A person at a terminal is asked before a large number."""
    return replay or calls < _MANY_CALLS or output.is_confirmed("Run it?")


def carry_out(prepared: PreparedRun, *, on: str | None = None) -> int:
    """Run what is left, print the result, close the models, and return the exit code."""
    import sys

    try:
        with _show_run() as progress:
            found = beliefrag.bench.carry_out(prepared, on=on, progress=progress)
    except KeyboardInterrupt:
        again = shlex.join(["beliefrag", *sys.argv[1:]])
        output.print_notice(f"the running episodes were dropped; resume with: {again}")
        raise
    return _print_result(found, prepared.spec)


def _print_result(found: Run, spec: RunSpec) -> int:
    tally = found.tally
    if spec.replay:
        output.print_notice(f"{found.missing_replies:,} keys are missing from the cache")
    words = f"{tally.finished:,} episodes finished, {tally.failed:,} failed"
    if tally.unjudged:
        words += f", {tally.unjudged:,} could not be judged"
    if tally.last_error:
        output.print_notice(f"last error: {tally.last_error}")
    again = bool(tally.failed or tally.unjudged)
    output.print_notice(f"{words}; {'the same command tries those again' if again else 'everything is done'}")
    return output.FAILED if again else output.OK


@contextlib.contextmanager
def _show_run() -> Iterator[Callable[[RunProgress], None]]:
    """Show on standard error how far a run is."""
    import time

    from beliefrag.bench.benchmark import format_duration

    failed = 0
    began = time.monotonic()
    with output.show_progress("running") as show:

        def take(progress: RunProgress) -> None:
            nonlocal failed
            if progress.episode is None:
                return
            done, total = progress.done, progress.plan.left
            failed += not progress.episode.finished
            left = format_duration((time.monotonic() - began) / done * (total - done))
            show(done, total, f"{done:,} of {total:,} episodes, {failed:,} failed, about {left} left")

        yield take


@with_settings("model", "base_url", "profile")
def study(
    name: Annotated[str, argument("NAME[:KEY=VALUE,...]", "A study of 'beliefrag config extensions', or all.")],
    further: options.FurtherPaths = None,
    *,
    out: Annotated[Path, option("DIR", "The folder of all studies and their runs.", "--out")],
    data: options.Data = None,
    from_: Annotated[Path | None, option("RUN", "Use the episodes of a run, and make none.", "--from")] = None,
    label: Annotated[str, option("NAME", "What makes an answer right: f1, exact_match, cover, judge.")] = "f1",
    how: options.RunOptions,
    given: GivenSettings,
) -> None:
    """Make one study, or all: run what it needs, and write its page. Give the same command again to resume.

    Example: beliefrag study thresholds --data hotpotqa musique --n 100 --out studies
    """
    from beliefrag.calibration.examples import parse_label
    from beliefrag.studies.make import prepare_studies
    from beliefrag.studies.study import choose_studies

    chosen = choose_studies(name)
    settings = given.load()
    right_by = parse_label(label)
    folders = join_paths(data, further) or []
    if bool(folders) is bool(from_):
        raise SettingsError("A study needs one source.", remedy="Name datasets with --data, or a run with --from.")
    spec = how.make_spec(settings, judge=label == "judge" or how.names_judge, download=bool(folders))
    with output.show_status("reading datasets"):
        prepared = prepare_studies(
            chosen, out=out, data=folders, existing_run=from_, settings=settings, spec=spec, label=right_by
        )
    raise typer.Exit(_make_studies(prepared, yes=how.yes))


def _make_studies(prepared: PreparedStudies, *, yes: bool) -> int:
    """Make the runs that studies need, then each study from the records, then the index; return the exit code."""
    for name, why in prepared.left_out.items():
        output.print_notice(f"{name} is left out: {why}")
    plans = _print_previews(prepared)
    if prepared.spec.preview:
        return output.OK
    if not yes and not may_call(sum(plan.estimate.calls for plan in plans.values()), replay=prepared.spec.replay):
        output.print_notice("nothing was run")
        return output.OK
    codes = [output.OK]

    def play(name: str, planned: PreparedRun) -> None:
        output.print_notice(f"run {name}:")
        codes.append(carry_out(planned))

    finished = [name for name, plan in plans.items() if not plan.left]
    recordings = prepared.make_runs(play, finished=finished)
    for each in prepared.studies:
        with output.show_status(f"computing {each.name}"):
            result = prepared.analyse(each, recordings)
        typer.echo(output.safe_line(each.extension.title))
        for sentence in result.findings:
            typer.echo(output.safe_line(f"  {sentence}"))
        output.print_written([prepared.out / each.name / "index.html"])
    prepared.write_index()
    output.print_written([prepared.out / "index.html"])
    if max(codes) != output.OK:
        output.print_notice(
            "some episodes failed; the pages say how many are missing, and the same command tries them again"
        )
    return max(codes)


def _print_previews(prepared: PreparedStudies) -> dict[str, Plan]:
    from beliefrag.bench.benchmark import format_duration

    plans: dict[str, Plan] = {}
    with output.show_status("opening datasets and model"):
        previews = list(prepared.previews())
    for name, preview in previews:
        for line in (f"run {name}:", *preview.lines):
            output.print_notice(line)
        plans[name] = preview.plan
    if len(plans) > 1:
        estimates = [plan.estimate for plan in plans.values()]
        calls, seconds = sum(each.calls for each in estimates), sum(each.seconds for each in estimates)
        output.print_notice(f"all runs together: {calls:,} calls, {format_duration(seconds)}")
    return plans
