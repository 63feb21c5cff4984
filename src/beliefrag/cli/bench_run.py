"""Carries out `beliefrag bench run`: tells what is ahead, asks before much of it, runs it, and says how it went."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from beliefrag.bench.money import in_dollars
from beliefrag.bench.plan import Plan, make_plan
from beliefrag.bench.runner import Runner, Tally, Watcher, episodes_for
from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.cli.bench_progress import watching
from beliefrag.cli.exit_codes import FAILED, INTERRUPTED, OK
from beliefrag.cli.output import print_notice, show_status
from beliefrag.methods import METHODS, STATE_COLLECTORS, needs_calibration
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.errors import RunError
from beliefrag.runs.record import RUN_FILE, RunRecord
from beliefrag.runs.store import EPISODES_FILE, LOCK_FILE, EpisodeLog, read_summaries
from beliefrag.settings import Settings
from beliefrag.types import Usage

__all__ = ["Prepared", "agreed", "amount", "carry_out", "duration", "prepare", "run", "tell"]

_MANY_CALLS = 1_000
"""From so many model calls on, a person is asked before they are made."""
_LOCAL = "local:"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is opened and planned, and not begun."""

    setup: Setup
    wanted: RunSpec
    out: Path
    record: RunRecord
    plan: Plan
    at_once: int

    async def aclose(self) -> None:
        """Lets go of the models of a run that is not carried out."""
        await self.setup.aclose()


def run(settings: Settings, wanted: RunSpec, out: Path, *, at_once: int | None, dry_run: bool, yes: bool) -> int:
    """Runs what is wanted, and gives the exit code."""
    prepared = prepare(settings, wanted, out, at_once=at_once)
    tell(prepared)
    if dry_run:
        return OK
    if not yes and not agreed(prepared.plan.estimate.calls, replay=wanted.replay):
        print_notice("nothing was run")
        return OK
    return carry_out(prepared)


def prepare(settings: Settings, wanted: RunSpec, out: Path, *, at_once: int | None) -> Prepared:
    """Opens what a run needs, holds it against what there is of the run, and plans the rest. Nothing is written."""
    before = _earlier(out)
    with show_status("opening datasets and model"):
        setup = set_up(settings, wanted, before)
    # An embedded model answers one call after another: a second episode would only take the first one's place in
    # its memory.
    at_once = at_once or (1 if settings.model.startswith(_LOCAL) else settings.concurrency)
    plan = make_plan(setup, read_summaries(out), at_once=at_once)
    # Checked before anything is told, asked or written.
    record = _gone_on(before, setup.record, plan)
    return Prepared(setup, wanted, out, record, plan, at_once)


def carry_out(prepared: Prepared) -> int:
    """Plays what is left of a run, says how it went, and gives the exit code. The models are let go of."""
    setup, wanted, out, at_once = prepared.setup, prepared.wanted, prepared.out, prepared.at_once
    with EpisodeLog(out, synced=not wanted.replay) as log:
        plan = make_plan(setup, log.summaries, at_once=at_once)
        # While somebody was asked, another process may have begun this run or let it grow.
        before = _earlier(out)
        record = _gone_on(before, setup.record, plan)
        if record != before:
            record.write(out)
        with watching(plan, log.summaries.values()) as watcher:
            tally = asyncio.run(_play(setup, log, plan, at_once=at_once, watcher=watcher, patient=wanted.replay))
    return _told(tally, plan, setup, wanted)


async def _play(
    setup: Setup, log: EpisodeLog, plan: Plan, *, at_once: int, watcher: Watcher, patient: bool
) -> Tally | None:
    """The tally; None if it was broken off by a second Ctrl-C."""
    runner = Runner(setup, log, at_once=episodes_for(at_once), watcher=watcher, patient=patient)
    task, events = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    interrupts = 0

    def interrupted() -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1:
            runner.stop()
            print_notice("stopping: what is under way will be finished; Ctrl-C again drops it")
        else:
            task.cancel()

    # Not in the main thread, or on a system without signals: Ctrl-C then breaks off at once.
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        events.add_signal_handler(signal.SIGINT, interrupted)
    try:
        return await runner.run(plan)
    except asyncio.CancelledError:
        if interrupts < 2:
            raise
        return None
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            events.remove_signal_handler(signal.SIGINT)
        await setup.aclose()


def _earlier(out: Path) -> RunRecord | None:
    if (out / RUN_FILE).exists():
        return RunRecord.read(out)
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file.", remedy="Name a folder with --out.")
    # A run that was killed before it began leaves no more than these.
    ours = {EPISODES_FILE, LOCK_FILE, f"{RUN_FILE}.new"}
    if out.is_dir() and {path.name for path in out.iterdir()} - ours:
        raise RunError(f"{out} is not empty and holds no run.", remedy="Name a new folder with --out.")
    # The record is on disk before the first episode is: without it nobody knows what these were made with.
    if (out / EPISODES_FILE).exists() and (out / EPISODES_FILE).stat().st_size:
        raise RunError(
            f"{out} has episodes in {EPISODES_FILE}, and no {RUN_FILE} that says what they were made with.",
            remedy=f"Put its {RUN_FILE} back, or name a new folder with --out.",
        )
    return None


def _gone_on(before: RunRecord | None, now: RunRecord, plan: Plan) -> RunRecord:
    if before is None:
        return now
    # With nothing left to do, nothing is made with the versions of today.
    return resume_record(before, now if plan.left else now.model_copy(update={"versions": before.versions}))


def tell(prepared: Prepared) -> None:
    """Says what a run has and what is ahead, with its cost."""
    plan, setup, record, wanted = prepared.plan, prepared.setup, prepared.record, prepared.wanted
    questions = sum(len(course.questions) for course in setup.courses.values())
    methods = len(wanted.methods)
    print_notice(
        f"{plan.total:,} episodes: {questions:,} questions of {len(setup.courses)} datasets by {methods} methods"
    )
    if (seen := setup.record.seen_by_calibration) and setup.record.calibration:
        print_notice(
            f"warning: the calibration {setup.record.calibration.name} was fitted or chosen on {seen:,} of these "
            "questions: BeliefRAG's numbers will flatter it"
        )
    largest = setup.record.settings.get("max_error")
    if largest is not None and not any(needs_calibration(name) or name in STATE_COLLECTORS for name in wanted.methods):
        keeping = ", ".join(METHODS.title(name) for name in METHODS if needs_calibration(name))
        print_notice(
            f"warning: a largest error of {largest:g} has no effect here: of all methods only {keeping} keeps to it"
        )
    if plan.left and (changed := _other_versions(record.versions, setup.record.versions)):
        print_notice(
            f"warning: this run goes on with other versions than it began with, and numbers may differ: {changed}"
        )
    if wanted.injection:
        print_notice(f"injected into what searches find: {wanted.injection}")
    if wanted.injection.counterfactual:
        spared = sum(course.spared for course in setup.courses.values())
        print_notice(f"of {questions:,} questions {spared:,} have no false answer to be told, and are left as they are")
    if plan.done or plan.to_judge or plan.failed_before:
        print_notice(
            f"{plan.done:,} are done already, {plan.failed_before:,} failed and are tried again, "
            f"{len(plan.to_judge):,} are still to be judged"
        )
    if wanted.replay:
        print_notice("a replay: every reply comes from the cache, and no model is asked")
        return
    ahead = plan.estimate
    basis = "measured on this run's episodes" if ahead.measured else "from typical figures; expect it to be off"
    print_notice(
        f"ahead, an estimate ({basis}): {amount(ahead.methods)}, {duration(ahead.seconds)}; "
        "less where the cache has replies"
    )
    print_notice(f"money: {in_dollars(record.model, record.price, ahead.methods)}")
    if record.judge and ahead.judge.calls:
        print_notice(f"judge: {amount(ahead.judge)}; {in_dollars(record.judge, record.judge_price, ahead.judge)}")


def _other_versions(then: Mapping[str, str], today: Mapping[str, str]) -> str:
    names = [name for name in {**then, **today} if then.get(name) != today.get(name)]
    return ", ".join(f"{name} {then.get(name, 'none')}, now {today.get(name, 'none')}" for name in names)


def amount(usage: Usage) -> str:
    """Calls and tokens in words."""
    return f"{usage.calls:,} calls, {usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"


def agreed(calls: int, *, replay: bool) -> bool:
    """Whether so many calls may be made: a person at a terminal is asked before many of them."""
    if replay or calls < _MANY_CALLS or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    return typer.confirm("Run it?", default=True, err=True)


def _told(tally: Tally | None, plan: Plan, setup: Setup, wanted: RunSpec) -> int:
    if wanted.replay:
        print_notice(f"{setup.missing_keys:,} keys are missing from the cache")
    resume = f"go on with: {shlex.join(['beliefrag', *sys.argv[1:]])}"
    if tally is None:
        print_notice(f"dropped what was under way; {resume}")
        return INTERRUPTED
    words = f"{tally.finished:,} episodes finished, {tally.failed:,} failed"
    if tally.unjudged:
        words += f", {tally.unjudged:,} could not be judged"
    if tally.trouble:
        print_notice(f"the latest trouble: {tally.trouble}")
    if tally.stopped:
        left = plan.left - tally.finished - tally.failed
        print_notice(f"{words}, {left:,} left; {resume}")
        return INTERRUPTED
    again = bool(tally.failed or tally.unjudged)
    print_notice(f"{words}; {'the same command tries those again' if again else 'all that was asked for is done'}")
    return FAILED if again else OK


def duration(seconds: float) -> str:
    """A time in words, to the digit that an estimate deserves."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
