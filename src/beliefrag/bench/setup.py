"""Opens all that a run needs: datasets with their indexes, the model that all episodes share, methods and judge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.judge import Judge
from beliefrag.bench.perturbation import Injector, passages_to_search
from beliefrag.bench.questions import TRAIN, Dataset, LabelledQuestion, gold_hash
from beliefrag.engine.controller import Method
from beliefrag.engine.loop import Harness
from beliefrag.errors import SettingsError
from beliefrag.methods import METHODS, STATE_COLLECTORS, needs_calibration, plan_search
from beliefrag.methods.intervention import Intervention, MethodWithIntervention
from beliefrag.models import ChatModel
from beliefrag.models.cache import CachedModel
from beliefrag.opening import Engine, decline_by_default, open_engine, open_model
from beliefrag.policy import ScoreScale
from beliefrag.retrieval import RETRIEVERS, PassageSource, Retriever, close_retriever, describe_engine, open_retriever
from beliefrag.retrieval.bm25 import MeasuresScores
from beliefrag.runs.partitions import Partition, partition, sample
from beliefrag.runs.record import (
    CalibrationRecord,
    DatasetRecord,
    Injection,
    MethodRecord,
    RunRecord,
    judge_price,
    model_price,
    now,
    versions,
)
from beliefrag.runs.run_errors import DataError
from beliefrag.runs.summary import MEAN
from beliefrag.settings import Settings

_ALL = "all"
_FEWEST_FOR_SCALE = 20
_MOST_FOR_SCALE = 100
"""Questions of a set that the scale of a retriever's scores is measured with."""
_PRIVATE_SETTINGS = {"base_url", "cache", "prompts"}
"""An address may hold a password and a folder a name; the model's identity and the prompts' hashes are enough."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What to run: the datasets, the methods, the questions and the judge."""

    data: tuple[str | Path, ...] = ()
    methods: tuple[str, ...] = tuple(METHODS)
    """Each as `NAME` or `NAME:key=value,...`; all by default."""
    datasets: tuple[Dataset, ...] = ()
    n: int | None = None
    """Questions of each dataset; None takes all."""
    n_of: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    splits: tuple[str, ...] = ()
    """The splits to take questions from; by default each dataset's evaluation splits, and all to collect states."""
    parts: tuple[Partition, ...] = ()
    """The parts of the study to take questions from; by default all three."""
    judge: bool = True
    judge_model: str | None = None
    judge_base_url: str | None = None
    injection: Injection = Injection()  # noqa: RUF009 (frozen)
    allow_seen: bool = False
    """Whether fitted methods may be compared on train questions and on those that a calibration has seen."""
    interventions: Mapping[str, Intervention] = field(default_factory=dict)
    """By dataset, the answerability that the calibrated methods decide with in place of their own."""
    declines: bool = False
    """Whether an answer that is likely wrong is declined, as where people ask."""
    replay: bool = False
    """Answer from the cache alone, and ask no model: known weights need not be on this machine."""
    preview: bool = False
    """Nothing will be asked: known weights need not be on this machine."""

    @property
    def method_names(self) -> tuple[str, ...]:
        """The names of the methods, without their options."""
        return tuple(text.partition(":")[0] for text in self.methods)


def collection_spec(spec: RunSpec, *, method: str = "beliefrag", searches: bool = True) -> RunSpec:
    """Return the same run with the method that collects states, for `bench.preview`."""
    collectors = {"beliefrag": "survey", "lean": "lean_survey" if searches else "lean_reads"}
    if method not in collectors:
        raise SettingsError(
            f"States are collected for beliefrag and lean, not for {method!r}.", remedy="Name one with --method."
        )
    return replace(spec, methods=(collectors[method],))


def choose_methods(names: str) -> tuple[str, ...]:
    """Return the methods of a list with commas, in the order of the tables; `all` in it means every method.

    A method can have options, as `NAME:key=value,...`.
    """
    given: dict[str, str] = {}
    latest = ""
    for piece in filter(None, (each.strip() for each in names.split(","))):
        if latest and "=" in piece and ":" not in piece.partition("=")[0]:
            given[latest] += f",{piece}"
            continue
        latest = piece.partition(":")[0].strip()
        if latest != _ALL:
            METHODS.choose(latest)  # raises if there is none
        if given.get(latest, piece) != piece:
            remedy = "Name it once; compare the two in two runs."
            raise SettingsError(f"The method {latest!r} is named twice, with different options.", remedy=remedy)
        given[latest] = piece
    if not given:
        raise SettingsError("No method is named.", remedy=f"Known: all, {', '.join(METHODS)}.")
    return tuple(given.get(name, name) for name in METHODS if name in given or _ALL in given)


@dataclass(frozen=True, slots=True)
class DatasetSetup:
    """One dataset, ready to run: what its episodes share."""

    name: str
    harnesses: Mapping[str, Harness]
    """By method: each brings its own retriever, packing and verifier form."""
    methods: Mapping[str, Method]
    questions: Mapping[str, LabelledQuestion]
    injector: Injector | None = None
    """Makes the retriever of each episode where something is injected into the hits; otherwise None."""

    def harness_for(self, method: str, labelled: LabelledQuestion) -> Harness:
        """Return the harness of one episode: the shared one, or its own where something is injected."""
        shared = self.harnesses[method]
        if self.injector is None:
            return shared
        return replace(shared, retriever=self.injector.wrap(shared.retriever, labelled))


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything opened."""

    datasets: Mapping[str, DatasetSetup]
    record: RunRecord
    judge: Judge | None
    models: tuple[ChatModel, ...]

    @property
    def missing_keys(self) -> frozenset[str]:
        """The keys of the requests that a replay found no reply for."""
        return frozenset().union(*(model.missing_keys for model in self.models if isinstance(model, CachedModel)))

    async def aclose(self) -> None:
        """Close the models, and the connections of retrievers on engines elsewhere."""
        for model in self.models:
            await model.aclose()
        for dataset in self.datasets.values():
            for harness in dataset.harnesses.values():
                close_retriever(harness.retriever)


def set_up(
    settings: Settings,
    spec: RunSpec,
    before: RunRecord | None = None,
    *,
    wrap_model: Callable[[ChatModel], ChatModel] = lambda model: model,
) -> Setup:
    """Open everything, the cheap things first.

    A replay takes the models' identities from the record of the run `before`, so neither weights nor a server are
    needed. `wrap_model` puts a layer around the model that the episodes share.
    """
    settings = decline_by_default(settings) if spec.declines else settings
    plans = {name: plan_search(settings, name) for name in spec.method_names}
    how = {"replay": spec.replay, "preview": spec.preview}
    model = wrap_model(open_model(settings, **how, identity=before.model if before else None))
    engine = _open_engine(settings, spec, model)
    judging = model
    if spec.judge and (spec.judge_model or spec.judge_base_url):
        own = {"model": spec.judge_model or settings.model, "base_url": spec.judge_base_url or settings.base_url}
        judging = open_model(settings.model_copy(update=own), **how, identity=before.judge if before else None)
    judge = Judge(judging, engine.prompts) if spec.judge else None
    datasets: dict[str, DatasetSetup] = {}
    records: dict[str, DatasetRecord] = {}
    identities: dict[str, set[str]] = {name: set() for name in plans}
    engines: dict[str, str] = {}
    for dataset in itertools.chain(map(load_dataset, map(Path, spec.data)), spec.datasets):
        _check_dataset(dataset, spec, datasets)
        source = PassageSource(passages=passages_to_search(dataset))
        retrievers = {
            text: open_retriever(RETRIEVERS.choose(text, settings.retrievers), source)
            for text in dict.fromkeys(plan.retriever for plan in plans.values())
        }
        scales = {text: _measure_scale(retriever, dataset) for text, retriever in retrievers.items()}
        for name, plan in plans.items():
            identities[name].add(retrievers[plan.retriever].identity or plan.retriever)
        for retriever in retrievers.values():
            if (searched := describe_engine(retriever)) is not None:
                engines[f"engine of {dataset.name}"] = searched
        questions = _choose_questions(dataset, spec, engine)
        intervention = spec.interventions.get(dataset.name)
        datasets[dataset.name] = DatasetSetup(
            name=dataset.name,
            harnesses={name: engine.build_harness(name, retrievers[plan.retriever]) for name, plan in plans.items()},
            methods={
                name: _build_method(text, engine, scales[plans[name].retriever], questions, intervention)
                for name, text in zip(spec.method_names, spec.methods, strict=True)
            },
            questions={question.id: question for question in questions},
            injector=Injector(dataset, spec.injection) if spec.injection else None,
        )
        index = source.open_index()
        records[dataset.name] = DatasetRecord(
            fingerprint=index.fingerprint,
            gold=gold_hash(dataset.questions),
            passages=len(index),
            question_ids=tuple(question.id for question in questions),
            licence=dataset.card.licence,
            source=dataset.card.source,
            score_scales=scales,
            splits=tuple(sorted({question.split for question in questions})),
            seen_by_calibration=_find_seen(engine, questions),
        )
    record = RunRecord(
        made=now(),
        versions=versions() | engines,
        model=model.identity,
        setups={
            name: _record_method(engine, name, "; ".join(sorted(identities[name])) or plan.retriever, plan.pack)
            for name, plan in plans.items()
        },
        prompts=engine.prompts.hashes(),
        budget=settings.budget,
        rules=settings.rules,
        judge=judge.identity if judge else None,
        seed=spec.seed,
        methods=spec.method_names,
        method_options=_method_options(spec, settings),
        datasets=records,
        injection=spec.injection or None,
        interventions={name: each.identity for name, each in spec.interventions.items() if name in datasets},
        settings=settings.model_dump(mode="json", exclude=_PRIVATE_SETTINGS),
        price=model_price(model.identity, settings.prices),
        judge_price=judge_price(judge.identity, model.identity, settings.prices) if judge else None,
    )
    return Setup(datasets, record, judge, (model,) if judging is model else (model, judging))


def _open_engine(settings: Settings, spec: RunSpec, model: ChatModel) -> Engine:
    # The calibration is used as it is, because such a run measures that; but it guarantees nothing there.
    warnings = [f"searches return {spec.injection}"] if spec.injection else []
    if spec.interventions:
        warnings.append("it does not decide with its own answerability")
    if not any(map(needs_calibration, spec.method_names)):
        # Methods without a calibration ignore a largest error, as the preview warns.
        settings = settings.model_copy(update={"max_error": None})
    documents = "".join(each.documents for each in spec.datasets)
    return open_engine(
        settings,
        methods=spec.methods,
        model=model,
        further_warnings=tuple(warnings),
        documents=documents,
        replay=spec.replay or spec.preview,
    )


def _check_dataset(dataset: Dataset, spec: RunSpec, others: Mapping[str, DatasetSetup]) -> None:
    if dataset.name == MEAN:
        raise DataError(
            f"A dataset cannot be named {MEAN}: tables use this name for the mean over datasets.",
            remedy="Rename its folder, or give it another name in its card.json.",
        )
    if dataset.name in others:
        raise DataError(f"Two datasets are called {dataset.name}.", remedy="Name each folder once.")
    if not dataset.passages and set(spec.method_names) != {"no_rag"}:
        # Every method would be a closed book there, and its number would say nothing about it.
        raise DataError(
            f"{dataset.name} has no passages to search.",
            remedy="Import it again with --corpus, or run no_rag alone.",
        )


def _measure_scale(retriever: Retriever, dataset: Dataset) -> ScoreScale | None:
    """Measure the scale of the scores of searches with the set's own questions, whichever of them the run asks.

    A set with few questions takes the retriever's own scale, which it measures on its passages.
    """
    if not isinstance(retriever, MeasuresScores) or len(dataset.questions) < _FEWEST_FOR_SCALE:
        return retriever.score_scale
    chosen = sample(dataset.questions, _MOST_FOR_SCALE, seed=0)
    return retriever.measure_score_scale(each.question.text for each in chosen)


def _build_method(
    text: str,
    engine: Engine,
    scale: ScoreScale | None,
    questions: Sequence[LabelledQuestion],
    intervention: Intervention | None,
) -> Method:
    method = engine.build_method(text, scale)
    if intervention is None or not needs_calibration(method.name):
        return method
    return MethodWithIntervention(method, intervention, tuple(each.question for each in questions))


def _record_method(engine: Engine, name: str, retriever: str, pack: int | None) -> MethodRecord:
    parts = engine.parts[name]
    used = parts.artifact
    return MethodRecord(
        verifier=parts.verifier.name,
        retriever=retriever,
        pack=pack,
        thresholds=parts.thresholds,
        calibration=CalibrationRecord(name=used.name, sha256=used.sha256) if used else None,
        calibration_warnings=parts.calibration_warnings,
    )


def _find_seen(engine: Engine, questions: Sequence[LabelledQuestion]) -> tuple[str, ...]:
    """Return the questions that a calibration of the run was fitted or chosen on."""
    ids = [each.id for each in questions]
    seen = {each for parts in engine.parts.values() if parts.artifact for each in parts.artifact.find_seen(ids)}
    return tuple(each for each in ids if each in seen)


def _method_options(spec: RunSpec, settings: Settings) -> dict[str, str]:
    """Return the options of each method that differ from their defaults, by the name of the method."""
    choices = [METHODS.choose(text, settings.methods) for text in spec.methods if text not in STATE_COLLECTORS]
    return {
        choice.name: ",".join(f"{name}={value}" for name, value in options.items())
        for choice in choices
        if (options := choice.changed_options())
    }


def _choose_questions(dataset: Dataset, spec: RunSpec, engine: Engine) -> Sequence[LabelledQuestion]:
    collects = all(name in STATE_COLLECTORS for name in spec.method_names)
    if spec.splits:
        present = dataset.splits()
        # Benchmarks name their splits differently: each takes those that it has, and must have one.
        dataset = dataset.of_split(*([split for split in spec.splits if split in present] or spec.splits))
    elif not collects:
        dataset = dataset.of_split(*(dataset.evaluation_splits() or dataset.splits()))
    questions: Sequence[LabelledQuestion] = dataset.questions
    if not (spec.allow_seen or collects):
        fitted = [name for name, parts in engine.parts.items() if parts.artifact or _is_linked(parts.search.retriever)]
        if fitted and any(question.split == TRAIN for question in questions):
            raise DataError(
                f"{', '.join(fitted)} may have been fitted on the train questions of {dataset.name}.",
                remedy="Name another split, or compare on them knowingly with --set run.allow_seen=true.",
            )
        seen = set(_find_seen(engine, questions))
        questions = [question for question in questions if question.id not in seen]
    questions = [each for each in questions if not spec.parts or partition(each.id) in spec.parts]
    if not questions:
        raise DataError(f"{dataset.name} has no questions to ask.", remedy="Name another folder, split or part.")
    return sample(questions, spec.n_of.get(dataset.name) or spec.n or len(questions), spec.seed)


def _is_linked(retriever: str) -> bool:
    """Return whether the retriever ranks with something that was fitted on train questions."""
    return retriever.partition(":")[0] == "linked"
