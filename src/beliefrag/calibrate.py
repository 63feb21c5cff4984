"""Calibration for programs and notebooks: collect states, fit, bound the risk, and tune thresholds.

Each function does what the command of the same name does, without printing or asking. It returns a `Result`, whose
`tables` a notebook shows and which become a `DataFrame` with `to_pandas()`. Only `collect` and `auto` ask a model.

    from beliefrag import calibrate
    fitted = calibrate.fit("runs/states", out="mine.json")
    calibrate.show(fitted.found).tables[0].to_pandas()
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from beliefrag import bench
from beliefrag.bench.benchmark import Result, format_duration
from beliefrag.bench.made_questions import (
    CALLS_PER_QUESTION,
    TOKENS_PER_CALL,
    MadeQuestion,
    QuestionSeed,
    draw_seeds,
    make_dataset,
    make_questions,
)
from beliefrag.bench.own_questions import load_user_questions
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.bench.setup import collection_spec
from beliefrag.calibration.artifact import (
    Artifact,
    conditions_of_run,
    count_guarantees_in_file,
    find_calibration_warnings,
    load_artifact,
    saved_artifact_path,
    select_artifact,
    shipped_artifacts,
    write_artifact,
)
from beliefrag.calibration.examples import StateCollection, parse_label, read_collection
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.risk import (
    add_guarantees,
    answers_needed,
    load_artifact_for_run,
    make_guarantees,
    read_risk_sample,
)
from beliefrag.calibration.tuning import RECORDING, Tuning, TuningError, tune_thresholds
from beliefrag.errors import SettingsError
from beliefrag.models.providers import use_server_model
from beliefrag.opening import choose_verifier, open_model, run_to_end
from beliefrag.policy import LogisticAnswerability, ScoreScale, Thresholds
from beliefrag.prompts import Prompts
from beliefrag.report import calibration_tables
from beliefrag.report.run_report import format_usage
from beliefrag.report.table import Column, Table
from beliefrag.retrieval import PassageSource
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import in_dollars
from beliefrag.runs.run_errors import DataError, RunChanged
from beliefrag.runs.states import Label, read_trajectories
from beliefrag.runs.summary import MEASURES
from beliefrag.settings import Settings, load_settings
from beliefrag.types import Passage, Question, Usage

Folders = str | Path | Sequence[str | Path]
ArtifactOrName = Artifact | str | Path

_MADE = "made_questions"
_FEWEST_HELD_OUT = 20
_JUDGED = {"lean": ("uncertainty",), "beliefrag": ("support", "conflict", "uncertainty", "gap")}
"""The diagnostics that a model gives, by method. Those that compare words are left out of the fit on made questions: a
made question has words of its passage, so they tell an answerable one at once, and people's questions not so."""


def collect(
    spec: bench.RunSpec,
    *,
    out: str | Path,
    method: str = "beliefrag",
    searches: bool = True,
    settings: Settings | None = None,
    concurrency: int | None = None,
    progress: Callable[[bench.RunProgress], object] | None = None,
) -> Result[bench.Run]:
    """Visit states on labelled questions, and record the answer that each state would give. This asks a model.

    The methods of `spec` are not used: `method` is the one whose states are collected, beliefrag or lean. Lean searches
    where its first answer is unsure so that `fit` learns what a search is worth, unless `searches` is off. The other
    arguments are those of `bench.run`; a call with the same ones continues a run that was stopped.
    """
    states = collection_spec(spec, method=method, searches=searches)
    run = bench.run(states, out=out, settings=settings, concurrency=concurrency, progress=progress)
    return Result(run, (calibration_tables.state_counts_table(read_trajectories(run.folder)[1]),))


def fit(
    runs: Folders,
    *,
    select: Folders = (),
    label: str | None = None,
    name: str | None = None,
    out: str | Path | None = None,
) -> Result[Artifact]:
    """Fit answerability and retrieval value to the recorded states of runs. No model is asked.

    With `select`, all of `runs` is fitted on, the kind is chosen on the runs of `select`, and nothing is held out. The
    `label` says whether an answer was right: judge, f1, exact_match or cover; by default judge where every answer
    has a verdict, otherwise f1. The quality is measured on the held-out questions. The calibration is written only
    where `out` is given.
    """
    path = Path(out) if out is not None else None
    lost = count_guarantees_in_file(path) if path else 0
    collection, used = _read_states(_folders(runs), label, _folders(select))
    return _write_fit(fit_artifact(collection, used, name=name), path, lost)


def _write_fit(artifact: Artifact, path: Path | None, lost: int) -> Result[Artifact]:
    if path:
        write_artifact(artifact, path)
    gone = f"{path} had {lost:,} guarantees of the earlier fit: make new ones with 'beliefrag calibrate risk'"
    tables = calibration_tables.artifact_tables(artifact)
    return Result(artifact, tables, (gone,) if lost else (), (path,) if path else ())


def show(artifact: ArtifactOrName | None = None) -> Result[tuple[Artifact, ...]]:
    """Return a calibration by its name or file; without one, all that come with the package."""
    if artifact is None:
        shipped = tuple(shipped_artifacts().values())
        return Result(shipped, (calibration_tables.artifact_list(shipped),))
    found = _load(artifact)
    return Result((found,), calibration_tables.artifact_tables(found))


def risk(
    artifact: str | Path,
    run: str | Path,
    *,
    max_error: float | Sequence[float],
    confidence: float = 0.9,
    label: str | None = None,
    thresholds: Thresholds = Thresholds(),
    out: str | Path | None = None,
) -> Result[Artifact]:
    """Choose the least answerability to answer at for which at most a given share of the answers is wrong.

    It is chosen on the held-out questions of a recorded run, for the policy with these `thresholds`. No model is asked.
    The result holds the calibration with its guarantees. `out` is a new file, or that of this calibration.
    """
    targets = sorted({max_error} if isinstance(max_error, float | int) else set(max_error))
    if not thresholds.abstain:
        raise SettingsError("An error bound needs a policy that can abstain.", remedy="Set thresholds.abstain to true.")
    path = Path(out) if out is not None else None
    if path:
        _require_own_file(path, str(artifact))
    policy = replace(thresholds, decline_below=None)
    collection, used = _read_states([Path(run)], label)
    (record,) = collection.runs
    fitted = load_artifact_for_run(str(artifact), record)
    # The scale is not used: relevance was measured when the states were recorded.
    calibration = fitted.calibration(fitted.score_scale or ScoreScale(0.0, 1.0))
    seen = fitted.find_seen(each for dataset in record.datasets.values() for each in dataset.question_ids)
    sample = read_risk_sample(record, collection.trajectories, calibration, label=used, thresholds=policy, seen=seen)
    guarantees = make_guarantees(sample, record, targets=targets, confidence=confidence, label=used, thresholds=policy)
    bounded = add_guarantees(fitted, guarantees)
    warnings = [f"left out: {n:,} questions, because {reason}" for reason, n in sample.left_out.items()]
    warnings += [
        f"no threshold met a largest error of {each.max_error:g}: it takes "
        f"at least {answers_needed(each.max_error, each.confidence):,} right answers, and more if some are wrong"
        for each in guarantees
        if each.threshold is None
    ]
    if path:
        write_artifact(bounded, path)
    tables = (calibration_tables.guarantee_table(guarantees),)
    return Result(bounded, tables, tuple(warnings), (path,) if path else ())


def tune(
    run: str | Path,
    *,
    max_tokens: float | None = None,
    min_quality: float | None = None,
    measure: str = "f1",
    answer: Sequence[float] | None = None,
    retrieval_value: Sequence[float] | None = None,
    calibration: str | None = None,
    borrow: str | None = None,
    out: str | Path | None = None,
) -> Result[Tuning]:
    """Choose thresholds from the recorded states of a run: the best for a token budget, or the cheapest good ones.

    A setting is chosen on one part of the questions (xsel) and checked on another (xhold): the greatest quality at no
    more mean tokens than `max_tokens`, or the fewest tokens at no less quality than `min_quality`. No model is asked.
    `answer` and `retrieval_value` are the thresholds to try, by default values over their whole range; `out` is the CSV
    file of the table.
    """
    if max_tokens is not None and min_quality is not None:
        raise SettingsError("A token budget and a minimum quality cannot be combined.", remedy="Give one or the other.")
    label = parse_label(measure)
    record, trajectories = read_trajectories(Path(run), *RECORDING)
    conditions = conditions_of_run(record)
    artifact = select_artifact(conditions, calibration=calibration, borrow=borrow)
    found = tune_thresholds(
        record,
        trajectories,
        artifact,
        answer=answer,
        retrieval_value=retrieval_value,
        measure=label,
        max_tokens=max_tokens,
        min_quality=min_quality,
    )
    warnings = find_calibration_warnings(artifact, conditions)
    notes = (*found.notes, *(f"{artifact.name} may be off here: {each}" for each in warnings))
    table, path = _tuning_table(found, label), Path(out) if out is not None else None
    if path:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(table.to_csv(), encoding="utf-8")
        except OSError as error:
            remedy = "Name another file with --out."
            raise TuningError(f"{path} cannot be written: {error.strerror}.", remedy=remedy) from error
    return Result(found, (table,), notes, (path,) if path else ())


def _tuning_table(found: Tuning, measure: Label) -> Table:
    """Return every setting on xsel, and the chosen and current ones on xhold."""
    on_xsel = list(found.settings)
    if found.current.thresholds not in {each.thresholds for each in on_xsel}:
        on_xsel.append(found.current)
    rows = []
    for part, each in (*(("xsel", one) for one in on_xsel), *(("xhold", one) for one in found.held_out or ())):
        marks = {
            "chosen": found.chosen is not None and each.thresholds == found.chosen.thresholds,
            "current": each.thresholds == found.current.thresholds,
            "frontier": part == "xsel" and any(each is setting for setting in found.frontier),
        }
        setting = ", ".join(name for name, holds in marks.items() if holds)
        own = (part, setting, each.thresholds.answer, each.thresholds.retrieval_value, each.questions)
        rows.append((*own, each.quality, each.tokens, each.answered, each.error, each.unrecorded))
    bounded = (Column(MEASURES[measure], bounded=True), Column("tokens", digits=0, bounded=True))
    names = ("part", "setting", "answer", "retrieval_value", "n")
    columns = (*map(Column, names), *bounded, *map(Column, ("answered", "error", "unrecorded")))
    return Table("tune", "Thresholds on recorded states", columns, tuple(rows))


def auto(
    docs: Folders,
    *,
    out: str | Path | None = None,
    n: int = 80,
    method: str | None = None,
    feedback: str | Path | None = None,
    name: str | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    concurrency: int | None = None,
    confirm: Callable[[str], bool] | None = None,
    progress: Callable[[int, int], object] | None = None,
    run_progress: Callable[[bench.RunProgress], object] | None = None,
) -> Result[Artifact] | None:
    """Calibrate a model on questions that it makes from your own documents. This asks the model.

    Questions that need one passage, questions that need two, and questions whose passage is taken out are made, checked
    and asked, and so are those of a file of `feedback`. A call with the same arguments continues where one was ended,
    if replies are cached. The questions and the states go into a folder beside the calibration.

    Without `out` the calibration goes to the user's settings folder. From then on it is used for these documents
    wherever the settings name no other; deleting the file ends that.

    `confirm` gets an estimate in words; if it returns False, no model is asked and the result is None. `progress` is
    called with how many questions are made and wanted, `run_progress` while they are asked.
    """
    chosen = settings or use_server_model(load_settings({}).settings)
    if n < 10:
        raise SettingsError(f"{n} questions are too few to fit anything on.", remedy="Make at least 10.")
    used = (method or chosen.method).partition(":")[0]
    spec = collection_spec(bench.RunSpec(judge=False), method=used, searches=False)
    source = PassageSource(docs=_folders(docs))
    model = open_model(chosen)
    form = choose_verifier(chosen, used).partition(":")[0]
    path = saved_artifact_path(model.identity, form, source.documents) if out is None else Path(out)
    lost = count_guarantees_in_file(path)
    folder = path.with_name(f"{path.stem}.questions")
    index = source.open_index()
    passages = index.first(len(index))
    labelled, unused = _read_feedback(feedback, passages)
    seeds = draw_seeds(passages, n, seed=seed)
    if confirm is not None and not confirm(_plan(seeds[:n], passages, spec, settings=chosen, folder=folder)):
        run_to_end(model.aclose())
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The folder {folder} for the questions cannot be made: {error.strerror}.", remedy="Name another --out."
        ) from None
    prompts = Prompts.load(chosen.prompts)
    at_once = concurrency or (1 if chosen.is_embedded else chosen.concurrency)

    async def make() -> tuple[tuple[MadeQuestion, ...], Mapping[str, int]]:
        try:
            return await make_questions(model, prompts, seeds, n, at_once=at_once, progress=progress)
        finally:
            await model.aclose()

    made, rejected = run_to_end(make())
    dataset = make_dataset(_MADE, made, passages)
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{each.record()}\n" for each in made), encoding="utf-8")
    spec, states = replace(spec, datasets=(dataset, *labelled)), folder / "states"
    try:
        prepared = bench.prepare_run(spec, out=states, settings=chosen, concurrency=concurrency)
    except RunChanged:
        # Documents, feedback or prompts have changed. What is asked again comes from the cache.
        shutil.rmtree(states)
        prepared = bench.prepare_run(spec, out=states, settings=chosen, concurrency=concurrency)
    bench.carry_out(prepared, progress=run_progress)
    collection = read_collection([states])
    # What ships moves as far as these labels are worth. The model must not judge its own answers to its own questions.
    shipped = select_artifact(conditions_of_run(collection.runs[0])).answerability
    prior = shipped if isinstance(shipped, LogisticAnswerability) else None
    artifact = fit_artifact(collection, "agrees", name=name, diagnostics=_JUDGED[used], prior=prior)
    fitted = _write_fit(artifact, path, lost)
    held_out = sum(partition(each.id) is Partition.XHOLD for each in made)
    # What was made, by its kind, and what was rejected, by the reason.
    rows = [(f"{kind}", f"{count}") for kind, count in Counter(each.kind for each in made).items()]
    rows += [(f"of {each.name}", f"{len(each.questions)}") for each in labelled]
    rows += [(f"rejected: {reason}", f"{count}") for reason, count in sorted(rejected.items())]
    few = (f"only {held_out} held-out questions say how good it is: ask for more with -n",)
    return replace(
        fitted,
        tables=(
            Table.of_texts("made", "Questions made from the documents", ("kind", "questions"), rows),
            *fitted.tables,
        ),
        warnings=(*unused, *(few if held_out < _FEWEST_HELD_OUT else ()), *fitted.warnings),
        files=(*fitted.files, file),
    )


def _read_feedback(file: str | Path | None, passages: Sequence[Passage]) -> tuple[tuple[Dataset, ...], tuple[str, ...]]:
    """Return the questions of a file that have a right answer, or why it has none."""
    try:
        return (() if file is None else (load_user_questions(Path(file), passages),)), ()
    except DataError as error:
        return (), (error.message,)


def _plan(
    seeds: Sequence[QuestionSeed], passages: Sequence[Passage], spec: bench.RunSpec, *, settings: Settings, folder: Path
) -> str:
    """Return an estimate of what a calibration will take, in words."""
    # What asking costs depends on how many questions there are, not on their words.
    placeholders = tuple(
        LabelledQuestion(Question(each.passages[0].text[:80], f"stand_in_{number}"), Gold(("unknown",)))
        for number, each in enumerate(seeds)
    )
    dataset = Dataset(_MADE, placeholders, tuple(passages), Card(name=_MADE))
    planned = replace(spec, datasets=(dataset,), preview=True)
    prepared = bench.prepare_run(planned, out=folder / "planned", settings=settings)
    run_to_end(prepared.aclose())
    ahead, record = prepared.plan.estimate, prepared.record
    calls = CALLS_PER_QUESTION * len(seeds)
    making = Usage(calls=calls, tokens_in=calls * TOKENS_PER_CALL, tokens_out=calls * 20)
    both = Usage(
        tokens_in=making.tokens_in + ahead.methods.tokens_in, tokens_out=making.tokens_out + ahead.methods.tokens_out
    )
    dollars = in_dollars(record.model, record.price, both)
    return (
        f"{len(seeds):,} questions are made from {len(passages):,} passages and asked, about "
        f"{format_usage(making)} to make them, and {format_usage(ahead.methods)}, "
        f"{format_duration(ahead.seconds)} to ask them; less where the cache has replies; money: {dollars}"
    )


def _read_states(
    folders: Sequence[Path], label: str | None, select: Sequence[Path] = ()
) -> tuple[StateCollection, Label]:
    wanted = parse_label(label) if label else None
    collection = read_collection(folders, select)
    return collection, wanted or collection.default_label()


def _load(artifact: ArtifactOrName) -> Artifact:
    return artifact if isinstance(artifact, Artifact) else load_artifact(str(artifact))


def _folders(given: Folders) -> list[Path]:
    return [Path(given)] if isinstance(given, str | Path) else [Path(each) for each in given]


def _require_own_file(path: Path, artifact: str) -> None:
    """Refuse a file that exists, unless it is the one of this calibration."""
    own = Path(artifact).expanduser()
    is_own = artifact not in shipped_artifacts() and own.exists() and path.exists() and path.samefile(own)
    if path.exists() and not is_own:
        raise SettingsError(f"{path} already exists.", remedy="Name another file with --out.")
