"""Benchmarks from Python: preview and run them; `results` reports on them.

Everything that `beliefrag bench` does is a function here. Nothing is printed and nobody is asked; progress goes to a
callback, and a `RunControl` ends a run early. `beliefrag.bench` exports these names.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from beliefrag.bench.own_documents import OwnDocuments
from beliefrag.bench.plan import Plan, make_plan
from beliefrag.bench.player import InProcessPlayer, Player
from beliefrag.bench.questions import Dataset
from beliefrag.bench.results import Report
from beliefrag.bench.runner import RunControl, Runner, Tally, episodes_for
from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.methods import METHODS, STATE_COLLECTORS, needs_calibration
from beliefrag.models.providers import use_server_model
from beliefrag.record import Episode, EpisodeSummary
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.record import RUN_FILE, RunRecord, in_dollars
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.run_files import EPISODES_FILE, LOCK_FILE, EpisodeLog, read_episodes, read_summaries
from beliefrag.runs.summary import Summary, summarise
from beliefrag.settings import Settings, load_settings
from beliefrag.types import Usage

__all__ = [
    "OnRunProgress",
    "PreparedRun",
    "Preview",
    "Run",
    "RunProgress",
    "carry_out",
    "carry_out_async",
    "format_duration",
    "format_usage",
    "prepare_run",
    "preview",
    "run",
    "run_to_end",
    "user_dataset",
]

_LOCAL = "local:"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run has come. The first one has no episode, and the last one has `done` equal to `plan.left`."""

    plan: Plan
    done: int
    """Episodes that are on disk, of those that were left when the run began."""
    episode: EpisodeSummary | None = None
    """The episode that has just ended."""
    earlier: tuple[EpisodeSummary, ...] = ()
    """In the first one: the episodes that were there before."""


OnRunProgress = Callable[[RunProgress], object]


@dataclass(frozen=True, slots=True)
class Run:
    """A run on disk, and what came of the latest call."""

    folder: Path
    record: RunRecord
    tally: Tally = field(default_factory=Tally)
    """What this call played."""
    plan: Plan | None = None
    """What this call had to do; None for a run that was only opened."""
    missing_replies: int = 0
    """For a replay: the requests whose replies the cache does not hold."""

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Reads the record of a run that was made before.

        Raises:
            RunError: The folder holds no run, or it cannot be read.
        """
        return cls(Path(folder), RunRecord.read(Path(folder)))

    def episodes(self) -> Iterator[Episode]:
        """Gives the whole episodes, one after the other, read from the file."""
        return read_episodes(self.folder)

    def summaries(self) -> tuple[EpisodeSummary, ...]:
        """Gives the numbers of all episodes."""
        return tuple(read_summaries(self.folder).values())

    def summary(self) -> Summary:
        """Gives the numbers by dataset and method, with intervals."""
        return summarise(self.folder)

    def __str__(self) -> str:
        """Gives the table of results for a terminal."""
        return str(Report.from_summary(self.summary()))

    def _repr_html_(self) -> str:
        return Report.from_summary(self.summary())._repr_html_()


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that is opened and planned, and not begun."""

    setup: Setup
    settings: Settings
    spec: RunSpec
    out: Path
    record: RunRecord
    plan: Plan
    at_once: int

    async def aclose(self) -> None:
        """Closes the models of a run that is not carried out."""
        await self.setup.aclose()

    def describe(self) -> Iterator[str]:
        """Says what the run has and what is ahead with its cost, in sentences."""
        yield from _describe_questions(self)
        plan, record = self.plan, self.record
        if plan.done or plan.to_judge or plan.failed_before:
            yield (
                f"{plan.done:,} are done already, {plan.failed_before:,} failed and are tried again, "
                f"{len(plan.to_judge):,} are still to be judged"
            )
        if self.spec.replay:
            yield "a replay: every reply comes from the cache, and no model is asked"
            return
        ahead = plan.estimate
        basis = "measured on this run's episodes" if ahead.measured else "from typical figures; expect it to be off"
        yield (
            f"ahead, an estimate ({basis}): {format_usage(ahead.methods)}, {format_duration(ahead.seconds)}; "
            "less where the cache has replies"
        )
        if ahead.unknown:
            names = ", ".join(METHODS.title(name) for name in ahead.unknown)
            yield f"unknown, and not in this estimate: the cost of {names}"
        yield f"money: {in_dollars(record.model, record.price, ahead.methods)}"
        if record.judge and ahead.judge.calls:
            yield f"judge: {format_usage(ahead.judge)}; {in_dollars(record.judge, record.judge_price, ahead.judge)}"


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would do and about what it would cost."""

    plan: Plan
    record: RunRecord
    """The record of the run, as it would be written."""
    lines: tuple[str, ...]
    """The preview in sentences, with warnings."""

    def __str__(self) -> str:
        return "\n".join(self.lines)


def user_dataset(questions: str | Path, docs: str | Path | Sequence[str | Path]) -> Dataset:
    """Gives the dataset of one's own questions with answers (CSV, TSV or JSON Lines) on one's own documents.

    Raises:
        DataError: The questions cannot be used.
        CorpusError: The documents cannot be used.
    """
    paths = [docs] if isinstance(docs, str | Path) else docs
    return OwnDocuments(Path(questions), tuple(Path(each) for each in paths)).load()


def preview(
    spec: RunSpec, *, out: str | Path, settings: Settings | None = None, concurrency: int | None = None
) -> Preview:
    """Gives what a run would do and about what it would cost. No model is asked, and nothing is written.

    Args:
        spec: What to run.
        out: The run's folder, new or with a run that goes on.
        settings: Model, budget and the rest; by default those of the settings file and the environment.
        concurrency: Most calls at a time.

    Raises:
        BeliefRAGError: Something cannot be used; the message says what.
    """
    prepared = prepare_run(spec, out=out, settings=settings, concurrency=concurrency)
    try:
        return Preview(prepared.plan, prepared.record, tuple(prepared.describe()))
    finally:
        run_to_end(prepared.aclose())


def run(
    spec: RunSpec,
    *,
    out: str | Path,
    settings: Settings | None = None,
    concurrency: int | None = None,
    on: str | None = None,
    progress: OnRunProgress | None = None,
    control: RunControl | None = None,
) -> Run:
    """Runs methods on datasets, or goes on with a run where it was. Episodes that lack a verdict are judged.

    Args:
        spec: What to run.
        out: The run's folder. Every episode is on disk there as soon as it has ended.
        settings: Model, budget and the rest; by default those of the settings file and the environment.
        concurrency: Most calls at a time.
        on: `ray` or `ray:ADDRESS`, to play the episodes on the workers of a Ray cluster; by default in this process.
        progress: Called at the beginning and after every episode.
        control: Its `stop` and `cancel` end the run early; the same call goes on with it.

    Raises:
        RunChanged: The run in that folder began with something else.
        BeliefRAGError: Something cannot be used; the message says what.
    """
    prepared = prepare_run(spec, out=out, settings=settings, concurrency=concurrency)
    return carry_out(prepared, on=on, progress=progress, control=control)


def prepare_run(
    spec: RunSpec, *, out: str | Path, settings: Settings | None = None, concurrency: int | None = None
) -> PreparedRun:
    """Opens what a run needs, compares it with what there is of the run, and plans the rest. Nothing is written.

    Raises:
        BeliefRAGError: Something cannot be used; the message says what.
    """
    settings = settings or use_server_model(load_settings({}).settings)
    folder = Path(out)
    before = _read_earlier(folder)
    setup = set_up(settings, spec, before)
    # An embedded model answers one call after another: a second episode would only take the first one's place in
    # its memory.
    at_once = concurrency or (1 if settings.model.startswith(_LOCAL) else settings.concurrency)
    plan = make_plan(setup, read_summaries(folder), at_once=at_once)
    # Checked before anything is told, asked or written.
    record = _resume(before, setup.record, plan)
    return PreparedRun(setup, settings, spec, folder, record, plan, at_once)


def carry_out(
    prepared: PreparedRun,
    *,
    on: str | None = None,
    progress: OnRunProgress | None = None,
    control: RunControl | None = None,
) -> Run:
    """Plays what is left of a prepared run. Its models are closed afterwards.

    Args:
        prepared: The run.
        on: `ray` or `ray:ADDRESS`, to play the episodes on the workers of a Ray cluster; by default in this process.
        progress: Called at the beginning and after every episode.
        control: Ends the run early.

    Raises:
        RunError: Nothing can be written, or everything fails.
    """
    return run_to_end(carry_out_async(prepared, on=on, progress=progress, control=control))


async def carry_out_async(
    prepared: PreparedRun,
    *,
    on: str | None = None,
    progress: OnRunProgress | None = None,
    control: RunControl | None = None,
) -> Run:
    """Does the same as `carry_out`, for callers that have an event loop of their own."""
    setup, spec, out = prepared.setup, prepared.spec, prepared.out
    report_progress: OnRunProgress = progress or (lambda _: None)
    try:
        with EpisodeLog(out, synced=not spec.replay) as log:
            plan = make_plan(setup, log.summaries, at_once=prepared.at_once)
            # While somebody was asked, another process may have begun this run or let it grow.
            before = _read_earlier(out)
            record = _resume(before, setup.record, plan)
            if record != before:
                record.write(out)
            done = 0

            def count(episode: EpisodeSummary) -> None:
                nonlocal done
                done += 1
                report_progress(RunProgress(plan, done, episode))

            async with _open_player(prepared, on, before, plan) as player:
                report_progress(RunProgress(plan, 0, earlier=tuple(log.summaries.values())))
                runner = Runner(
                    player,
                    log,
                    at_once=max(player.lanes, episodes_for(prepared.at_once)),
                    on_episode=count,
                    patient=spec.replay,
                    control=control,
                )
                tally = await runner.run(plan)
                missing = player.missing_keys
        return Run(out, record, tally, plan, missing)
    finally:
        await setup.aclose()


@contextlib.asynccontextmanager
async def _open_player(
    prepared: PreparedRun, on: str | None, before: RunRecord | None, plan: Plan
) -> AsyncIterator[Player]:
    if on is None or not plan.left:
        yield InProcessPlayer(prepared.setup)
        return
    # Imported here: only those who run on a cluster need it.
    from beliefrag.bench.ray_player import open_ray_player  # noqa: PLC0415

    async with open_ray_player(
        on,
        settings=prepared.settings,
        spec=prepared.spec,
        before=before,
        record=prepared.setup.record,
        calls=prepared.at_once,
        episodes=plan.left,
    ) as player:
        yield player


def format_usage(usage: Usage) -> str:
    """Calls and tokens in words."""
    return f"{usage.calls:,} calls, {usage.tokens_in:,} tokens in, {usage.tokens_out:,} out"


def format_duration(seconds: float) -> str:
    """Gives a time in words, to the digit that an estimate deserves."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def run_to_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine to its end, also where a notebook already runs an event loop in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


def _read_earlier(out: Path) -> RunRecord | None:
    """Gives the record of the run in a folder; None where a new run may begin there."""
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


def _resume(before: RunRecord | None, now: RunRecord, plan: Plan) -> RunRecord:
    if before is None:
        return now
    # With nothing left to do, nothing is made with the versions of today.
    return resume_record(before, now if plan.left else now.model_copy(update={"versions": before.versions}))


def _describe_questions(prepared: PreparedRun) -> Iterator[str]:
    plan, setup, spec = prepared.plan, prepared.setup, prepared.spec
    questions = sum(len(dataset.questions) for dataset in setup.datasets.values())
    yield (
        f"{plan.total:,} episodes: {questions:,} questions of {len(setup.datasets)} datasets by {len(spec.methods)} "
        "methods"
    )
    if (seen := setup.record.seen_by_calibration) and setup.record.calibrations:
        yield (
            f"warning: the calibration {setup.record.calibrations[0].name} was fitted or chosen on {seen:,} of these "
            "questions: BeliefRAG's numbers will flatter it"
        )
    largest = setup.record.settings.get("max_error")
    if largest is not None and not any(needs_calibration(n) or n in STATE_COLLECTORS for n in spec.method_names):
        keeping = ", ".join(METHODS.title(name) for name in METHODS if needs_calibration(name))
        yield f"warning: a largest error of {largest:g} has no effect here: of all methods only {keeping} keeps to it"
    if plan.left and (changed := _other_versions(prepared.record.versions, setup.record.versions)):
        yield f"warning: this run goes on with other versions than it began with, and numbers may differ: {changed}"
    if spec.injection:
        yield f"injected into what searches find: {spec.injection}"
    if spec.injection.counterfactual:
        spared = sum(dataset.questions_without_falsehood for dataset in setup.datasets.values())
        yield f"of {questions:,} questions {spared:,} have no false answer to be told, and are left as they are"


def _other_versions(then: Mapping[str, str], today: Mapping[str, str]) -> str:
    names = [name for name in {**then, **today} if then.get(name) != today.get(name)]
    return ", ".join(f"{name} {then.get(name, 'none')}, now {today.get(name, 'none')}" for name in names)
