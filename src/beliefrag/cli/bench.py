"""`beliefrag bench`: run methods on benchmarks, report the numbers with intervals, compare two methods.

The progress of a run goes to standard error: a bar on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, output
from beliefrag.cli.options import GivenSettings, argument, flag, option, with_settings

if TYPE_CHECKING:
    from beliefrag.bench.benchmark import PreparedRun, Run, RunProgress
    from beliefrag.bench.runner import RunControl
    from beliefrag.bench.setup import RunSpec
    from beliefrag.record import EpisodeSummary
    from beliefrag.settings import Settings

_MANY_CALLS = 1_000
"""From this many model calls on, a person is asked before they are made."""

app = typer.Typer(help="Run methods on datasets, report their numbers and compare them.", no_args_is_help=True)

_Run = Annotated[Path, argument("RUN", "The folder of a run.")]


@app.command()
@with_settings("model", "base_url")
def run(
    further: options.FurtherPaths = None,
    *,
    out: options.Out,
    asked: options.LabelledQuestions,
    methods: Annotated[str, option("NAMES", "'all', or names with commas.", "--methods", "--method")] = "all",
    how: options.RunOptions,
    replay: Annotated[bool, flag("--replay", "Take every reply from the cache, and ask no model.")] = False,
    on: Annotated[str | None, option("PLACE", "'ray' or 'ray:ADDRESS': run on a Ray cluster.", "--on")] = None,
    no_judge: options.NoJudge = False,
    given: GivenSettings,
) -> None:
    """Run methods on datasets. Give the same command again to resume a run that was interrupted.

    Example: beliefrag bench run --data hotpotqa --methods static,beliefrag --n 100 --out runs/first
    """
    from beliefrag.bench.setup import choose_methods

    settings = given.load()
    how = replace(how, replay=replay or how.replay)
    folders, own = asked.read(further)
    spec = how.make_spec(settings, judge=not no_judge)
    spec = replace(spec, data=folders, methods=choose_methods(methods), datasets=own)
    raise typer.Exit(carry_out_run(settings, spec, out, on=on, yes=how.yes))


@app.command()
def report(
    run: _Run,
    out: Annotated[Path | None, option("DIR", "Where to write; by default report in the run's folder.")] = None,
) -> None:
    """Print a run's numbers, and write them as Markdown, CSV, LaTeX and HTML. No model is asked.

    Example: beliefrag bench report runs/first
    """
    from beliefrag import bench

    # The files come first so that a reader who closes the output early still has them.
    found = bench.report(run, out=out or run / "report")
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
    from beliefrag import bench

    found = bench.compare(run, first, second, allow_unequal=allow_unequal)
    for warning in found.warnings:
        output.print_notice(warning)
    output.print_table(found.tables[0].headings, found.tables[0].texts)


def carry_out_run(settings: Settings, spec: RunSpec, out: Path, *, on: str | None = None, yes: bool) -> int:
    """Print what is ahead, ask before a large run, carry it out, and return the exit code."""
    from beliefrag import bench
    from beliefrag.ray_cluster import check_place

    if on is not None:
        check_place(on)
    with output.show_status("opening datasets and model"):
        prepared = bench.prepare_run(spec, out=out, settings=settings)
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
    from beliefrag import bench
    from beliefrag.bench.runner import RunControl

    control = RunControl()
    with _interrupts(control), _show_run() as progress:
        found = bench.carry_out(prepared, on=on, progress=progress, control=control)
    return _print_result(found, prepared.spec)


@contextlib.contextmanager
def _interrupts(control: RunControl) -> Iterator[None]:
    """Let the first Ctrl-C stop the run, and the second one cancel running episodes."""
    import signal

    def interrupt(*_: object) -> None:
        if control.is_stopping:
            control.cancel()
        else:
            control.stop()
            output.print_notice("stopping after the running episodes; press Ctrl-C again to drop them")

    before = None
    # Not in the main thread: Ctrl-C then ends the run at once.
    with contextlib.suppress(ValueError):
        before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _print_result(found: Run, spec: RunSpec) -> int:
    import shlex
    import sys

    tally = found.tally
    if spec.replay:
        output.print_notice(f"{found.missing_replies:,} keys are missing from the cache")
    resume = f"resume with: {shlex.join(['beliefrag', *sys.argv[1:]])}"
    if tally.cancelled:
        output.print_notice(f"dropped the running episodes; {resume}")
        return output.INTERRUPTED
    words = f"{tally.finished:,} episodes finished, {tally.failed:,} failed"
    if tally.unjudged:
        words += f", {tally.unjudged:,} could not be judged"
    if tally.trouble:
        output.print_notice(f"last error: {tally.trouble}")
    if tally.stopped:
        left = (found.plan.left if found.plan else 0) - tally.finished - tally.failed
        output.print_notice(f"{words}, {left:,} left; {resume}")
        return output.INTERRUPTED
    again = bool(tally.failed or tally.unjudged)
    output.print_notice(f"{words}; {'the same command tries those again' if again else 'everything is done'}")
    return output.FAILED if again else output.OK


@dataclass(slots=True)
class _Sums:
    """Sums over the finished episodes of one dataset and method."""

    total: int = 0
    done: int = 0
    finished: int = 0
    f1: float = 0.0
    scored: int = 0
    tokens: int = 0

    def add(self, episode: EpisodeSummary) -> None:
        self.done += 1
        if not episode.finished:
            return
        self.finished += 1
        self.tokens += episode.usage.tokens
        if (f1 := episode.metrics.get("f1")) is not None:
            self.f1 += f1
            self.scored += 1

    def __str__(self) -> str:
        f1 = f"{self.f1 / self.scored:.3f}" if self.scored else "-"
        failed = f", {self.done - self.finished} failed" if self.done > self.finished else ""
        return f"{self.done} of {self.total}, F1 {f1}, {self.tokens / max(1, self.finished):,.0f} tokens{failed}"


@contextlib.contextmanager
def _show_run() -> Iterator[Callable[[RunProgress], None]]:
    """Show on standard error how a run goes, with a line for each method that is done with a dataset."""
    import time

    from beliefrag.methods import METHODS

    sums: dict[tuple[str, str], _Sums] = {}
    began = time.monotonic()
    with output.show_progress("running") as show:

        def take(progress: RunProgress) -> None:
            plan, episode = progress.plan, progress.episode
            if episode is None:
                ahead = {*plan.to_judge, *plan.to_play}
                for key in ahead:
                    sums.setdefault((key.dataset, key.method), _Sums()).total += 1
                for each in progress.earlier:
                    place = (each.key.dataset, each.key.method)
                    if place in sums and each.key not in ahead:
                        sums[place].total += 1
                        sums[place].add(each)
                return
            dataset, method = place = (episode.key.dataset, episode.key.method)
            sums[place].add(episode)
            words = f"{dataset} {METHODS.title(method)}: {sums[place]}"
            left = (time.monotonic() - began) / progress.done * (plan.left - progress.done) / 60
            count = f"{progress.done:,} of {plan.left:,} episodes, about {left:.0f} min left"
            show(progress.done, plan.left, f"{count}; {words}")
            if sums[place].done >= sums[place].total:
                output.print_notice(words)

        yield take
