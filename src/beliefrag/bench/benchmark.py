"""Benchmarks from Python: preview and run them, report on them, and compare two methods.

Everything that `beliefrag bench` does is a function here. Nothing is printed and nothing is asked; progress goes to a
callback, and an exception that it raises ends a run early. `beliefrag.bench` exports these names.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Generic, TypeVar

from beliefrag.bench.metrics import agrees, is_rightly_declined
from beliefrag.bench.own_questions import OwnDocuments
from beliefrag.bench.plan import Plan, make_plan
from beliefrag.bench.questions import Dataset, LabelledQuestion
from beliefrag.bench.runner import InProcessPlayer, Player, Runner, Tally, episodes_for
from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.methods import METHODS, STATE_COLLECTORS, needs_calibration
from beliefrag.models.providers import use_server_model
from beliefrag.opening import run_to_end
from beliefrag.record import Episode, EpisodeSummary
from beliefrag.report.run_report import cost_lines, format_usage, mean_notes, results_table, write_report
from beliefrag.report.table import Table
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.record import RUN_FILE, RunRecord, in_dollars
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.run_files import EPISODES_FILE, LOCK_FILE, EpisodeLog, read_episodes, read_summaries
from beliefrag.runs.summary import MEASURES, DatasetComparison, Summary, compare_methods, describe_incomplete, summarise
from beliefrag.settings import Settings, load_settings
from beliefrag.types import NO_ANSWER

_LEFT_OUT_SHOWN = 5
_VERDICTS = ("right", "rightly declined", "not clear", "wrong", "declined", "failed")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run has come. The first one has no episode, and the last one has `done` equal to `plan.left`."""

    plan: Plan
    done: int
    """Episodes that are on disk, of those that were left when the run began."""
    episode: EpisodeSummary | None = None


OnRunProgress = Callable[[RunProgress], object]


@dataclass(frozen=True, slots=True)
class Run:
    """A run on disk, and what the latest call did."""

    folder: Path
    record: RunRecord
    tally: Tally = field(default_factory=Tally)
    plan: Plan | None = None
    """What this call had to do; None for a run that was only opened."""
    missing_replies: int = 0
    """For a replay: the requests whose replies the cache does not hold."""

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """Read the record of an earlier run."""
        return cls(Path(folder), RunRecord.read(Path(folder)))

    def episodes(self) -> Iterator[Episode]:
        """Yield the whole episodes, one after the other, read from the file."""
        return read_episodes(self.folder)

    def summaries(self) -> tuple[EpisodeSummary, ...]:
        """Return the numbers of all episodes."""
        return tuple(read_summaries(self.folder).values())

    def summary(self) -> Summary:
        """Return the numbers by dataset and method, with intervals."""
        return summarise(self.folder)

    def __str__(self) -> str:
        return str(report(self.folder))

    def _repr_html_(self) -> str:
        return report(self.folder)._repr_html_()


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
        """Close the models of a run that is not carried out."""
        await self.setup.aclose()

    def describe(self) -> Iterator[str]:
        """Return what the run has and what is ahead with its cost, in sentences."""
        yield from _describe_questions(self)
        plan, record = self.plan, self.record
        if plan.done or plan.to_judge or plan.failed_before:
            yield (
                f"done before: {plan.done:,}; failed and tried again: {plan.failed_before:,}; "
                f"not judged yet: {len(plan.to_judge):,}"
            )
        if self.spec.replay:
            yield "a replay: every reply comes from the cache, and no model is asked"
            return
        ahead = plan.estimate
        basis = "this run's episodes" if ahead.measured else "typical figures"
        yield (
            f"estimate from {basis}: {format_usage(ahead.methods)}, {format_duration(ahead.seconds)}; "
            "less for replies in the cache"
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
    lines: tuple[str, ...]
    """The preview in sentences, with warnings."""
    record: RunRecord

    def __str__(self) -> str:
        return "\n".join(self.lines)


@dataclass(frozen=True)
class Result(Generic[_T]):
    """What a function found, and the same as tables, which a notebook shows and `print` prints."""

    found: _T
    tables: tuple[Table, ...]
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return "".join(table.to_text() for table in self.tables) + "\n".join(self.warnings)

    def _repr_html_(self) -> str:
        tables = "\n".join(table._repr_html_() for table in self.tables)
        return tables + "".join(f"<p>{escape(line)}</p>" for line in self.warnings)


def user_dataset(questions: str | Path, docs: str | Path | Sequence[str | Path]) -> Dataset:
    """Return the dataset of your own questions with answers (CSV, TSV or JSON Lines) on your own documents."""
    paths = [docs] if isinstance(docs, str | Path) else docs
    return OwnDocuments(Path(questions), tuple(Path(each) for each in paths)).load()


def preview(
    spec: RunSpec, *, out: str | Path, settings: Settings | None = None, concurrency: int | None = None
) -> Preview:
    """Return what `run` would do and about what it would cost. No model is asked, and nothing is written."""
    prepared = prepare_run(spec, out=out, settings=settings, concurrency=concurrency)
    try:
        return Preview(prepared.plan, tuple(prepared.describe()), prepared.record)
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
) -> Run:
    """Run methods on datasets, or continue a run. Episodes that lack a verdict are judged.

    Every episode is in the folder `out` as soon as it has ended. The settings are by default those of the settings file
    and the environment. With `on`, which is `ray` or `ray:ADDRESS`, the workers of a Ray cluster play the episodes.
    `progress` is called at the beginning and after every episode; an exception that it raises ends the run.
    """
    prepared = prepare_run(spec, out=out, settings=settings, concurrency=concurrency)
    return carry_out(prepared, on=on, progress=progress)


def prepare_run(
    spec: RunSpec, *, out: str | Path, settings: Settings | None = None, concurrency: int | None = None
) -> PreparedRun:
    """Open what a run needs, compare it with what there is of the run, and plan the rest. Nothing is written."""
    settings = settings or use_server_model(load_settings({}).settings)
    folder = Path(out)
    before = _read_earlier(folder)
    setup = set_up(settings, spec, before)
    # An embedded model answers one call after another: a second episode would only take the first one's place in
    # its memory.
    at_once = concurrency or (1 if settings.is_embedded else settings.concurrency)
    plan = make_plan(setup, read_summaries(folder), at_once=at_once)
    return PreparedRun(setup, settings, spec, folder, _resume(before, setup.record, plan), plan, at_once)


def carry_out(
    prepared: PreparedRun,
    *,
    on: str | None = None,
    progress: OnRunProgress | None = None,
) -> Run:
    """Play what is left of a prepared run, as `run` does. Its models are closed afterwards."""
    return run_to_end(_carry_out(prepared, on, progress or (lambda _: None)))


async def _carry_out(prepared: PreparedRun, on: str | None, report_progress: OnRunProgress) -> Run:
    setup, spec, out = prepared.setup, prepared.spec, prepared.out
    try:
        with EpisodeLog(out, synced=not spec.replay) as log:
            plan = make_plan(setup, log.summaries, at_once=prepared.at_once)
            # Since the run was prepared, another process may have begun it or let it grow.
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
                report_progress(RunProgress(plan, 0))
                runner = Runner(
                    player,
                    log,
                    at_once=max(player.lanes, episodes_for(prepared.at_once)),
                    on_episode=count,
                    patient=spec.replay,
                )
                tally = await runner.run(plan)
                return Run(out, record, tally, plan, player.missing_keys)
    finally:
        await setup.aclose()


def report(folder: str | Path, *, out: str | Path | None = None) -> Result[Summary]:
    """Return the numbers of a run, with intervals; with `out` also write them as Markdown, CSV and HTML."""
    summary = summarise(Path(folder))
    files = () if out is None else tuple(write_report(summary, Path(out)))
    notes = (f"note: {note}" for note in mean_notes(summary))
    costs = (f"{what}: {words}" for what, words in cost_lines(summary))
    return Result(summary, (results_table(summary),), (summary.first_line, *notes, *costs), files)


def check_answers(folder: str | Path, dataset: Dataset) -> Result[Counter[str]]:
    """Return what a run answered to each question of a dataset, and how often it was right, wrong or declined.

    Right is what the judge accepts, or else what agrees with a right answer word by word. Declining is right where the
    documents have no answer.
    """
    given = {each.question.id: each for each in read_episodes(Path(folder))}
    rows = [_check_answer(given[each.id], each) for each in dataset.questions if each.id in given]
    counts = Counter(row[0] for row in rows)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    right = counts["right"] + counts["rightly declined"]
    headings = ("verdict", "question", "expected", "given", "probability")
    table = Table.of_texts("answers", "", headings, rows)
    return Result(counts, (table,), (f"{right} of {len(rows)} right: {words}",))


def _check_answer(episode: Episode, labelled: LabelledQuestion) -> tuple[str, ...]:
    asked, gold = labelled.question.text, labelled.gold
    if not episode.finished:
        verdict = "failed"
    elif episode.answer is None:
        verdict = "rightly declined" if is_rightly_declined(None, gold) else "declined"
    else:
        right = episode.verdict.correct if episode.verdict else agrees(episode.answer, asked, gold)
        verdict = "not clear" if right is None else "right" if right else "wrong"
    expected = " | ".join(each.replace(NO_ANSWER, "(no answer)") for each in gold.answers)
    likely = "-" if episode.answerability is None else f"{episode.answerability:.0%}"
    return verdict, asked, expected, episode.answer or "-", likely


def compare(
    folder: str | Path, first: str, second: str, *, allow_unequal: bool = False
) -> Result[tuple[DatasetComparison, ...]]:
    """Compare two methods of a run on the same questions, in F1 and in tokens.

    With `allow_unequal` they are compared on the questions that both finished, where they did not finish the same ones.
    """
    record, episodes = RunRecord.read(Path(folder)), read_summaries(Path(folder)).values()
    found = tuple(compare_methods(record, episodes, first, second, allow_unequal=allow_unequal))
    incomplete = describe_incomplete(record, episodes, first, second)
    left_out = (_describe_left_out(each) for each in found if each.paired.left_out)
    one, other = METHODS.title(first), METHODS.title(second)
    headings = ("dataset", "n", "measure", one, other, "difference", "95 %", "reading")
    rows = [row for each in found for row in _comparison_rows(each)]
    table = Table.of_texts("comparison", f"{one} minus {other}", headings, rows)
    return Result(found, (table,), (*((incomplete,) if incomplete else ()), *left_out))


def format_duration(seconds: float) -> str:
    """Return a time in words, to the digit that an estimate deserves."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _open_player(
    prepared: PreparedRun, on: str | None, before: RunRecord | None, plan: Plan
) -> contextlib.AbstractAsyncContextManager[Player]:
    if on is None or not plan.left:
        return contextlib.nullcontext(InProcessPlayer(prepared.setup))
    # Imported here: only those who run on a cluster need it.
    from beliefrag.bench.ray_player import open_ray_player  # noqa: PLC0415

    return open_ray_player(
        on,
        settings=prepared.settings,
        spec=prepared.spec,
        before=before,
        record=prepared.setup.record,
        calls=prepared.at_once,
        episodes=plan.left,
    )


def _read_earlier(out: Path) -> RunRecord | None:
    """Return the record of the run in a folder; None where a new run may begin there."""
    if (out / RUN_FILE).exists():
        return RunRecord.read(out)
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file.", remedy="Name a folder with --out.")
    # A run that was killed before it began leaves no more than these.
    ours = {EPISODES_FILE, LOCK_FILE, f"{RUN_FILE}.new"}
    if out.is_dir() and {path.name for path in out.iterdir()} - ours:
        raise RunError(f"{out} is not empty and holds no run.", remedy="Name a new folder with --out.")
    # The record is on disk before the first episode is.
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
        f"episodes: {plan.total:,} (questions: {questions:,}, datasets: {len(setup.datasets)}, "
        f"methods: {len(spec.methods)})"
    )
    if (seen := setup.record.seen_by_calibration) and setup.record.calibrations:
        yield (
            f"warning: the calibration {setup.record.calibrations[0].name} was fitted or chosen on {seen:,} of these "
            "questions: BeliefRAG's numbers will flatter it"
        )
    for name, each in setup.record.setups.items():
        if each.calibration and each.calibration_warnings:
            why = "; ".join(each.calibration_warnings)
            yield f"warning: {METHODS.title(name)} decides with the calibration {each.calibration.name}, {why}"
    largest = setup.record.settings.get("max_error")
    if largest is not None and not any(needs_calibration(n) or n in STATE_COLLECTORS for n in spec.method_names):
        keeping = ", ".join(METHODS.title(name) for name in METHODS if needs_calibration(name))
        yield f"warning: a largest error of {largest:g} has no effect here: of all methods only {keeping} keeps to it"
    then, today = prepared.record.versions, setup.record.versions
    changed = [name for name in {**then, **today} if then.get(name) != today.get(name)] if plan.left else []
    if changed:
        words = ", ".join(f"{name} {then.get(name, 'none')}, now {today.get(name, 'none')}" for name in changed)
        yield f"warning: this run continues with other versions than it began with, and numbers may differ: {words}"
    if spec.injection:
        yield f"injected into what searches find: {spec.injection}"


def _comparison_rows(found: DatasetComparison) -> Iterator[tuple[str, ...]]:
    n = str(found.paired.questions)
    for name in (found.quality, "tokens"):
        measured = found.paired.measures[name]
        gap, digits = measured.difference, ",.0f" if name == "tokens" else ".3f"
        between = "-" if gap.low is None or gap.high is None else f"{gap.low:+{digits}} to {gap.high:+{digits}}"
        reading = "the interval holds zero"
        if measured.is_clear:
            reading = "clear"
        elif gap.has_few_questions:
            reading = "too few questions to say"
        values = (f"{measured.first:{digits}}", f"{measured.second:{digits}}", f"{gap.value:+{digits}}")
        yield found.dataset, n, MEASURES[name], *values, between, reading
    if found.paired.better_and_cheaper is not None:
        share = f"{found.paired.better_and_cheaper:.1%}"
        yield found.dataset, n, "better and cheaper", "", "", share, "", "share of resamples"


def _describe_left_out(found: DatasetComparison) -> str:
    ids = found.paired.left_out
    more = f" and {len(ids) - _LEFT_OUT_SHOWN:,} more" if len(ids) > _LEFT_OUT_SHOWN else ""
    named = ", ".join(f"{each:.60}" for each in ids[:_LEFT_OUT_SHOWN])
    return f"warning: {found.dataset}: {len(ids):,} questions are left out ({named}{more}); only one side has them"
