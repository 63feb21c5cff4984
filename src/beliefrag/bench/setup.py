"""Opens all that a run needs: datasets with their indexes, the model that all episodes share, methods and judge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.judge import Judge
from beliefrag.bench.money import judge_price, model_price
from beliefrag.bench.perturbation import Injection, Injector, searched_passages
from beliefrag.bench.questions import Dataset, LabelledQuestion, gold_hash
from beliefrag.calibration import Artifact, RunConditions, apply_guarantee, find_calibration_warnings, select_artifact
from beliefrag.engine.assembly import guarantee_from_settings
from beliefrag.engine.controller import Method
from beliefrag.engine.loop import Harness
from beliefrag.errors import ModelError, SettingsError
from beliefrag.methods import METHODS, MethodInputs, build_method, needs_calibration
from beliefrag.methods.intervention import Intervention, MethodWithIntervention
from beliefrag.models import ChatModel, ChatReply, ChatRequest, compose, default_verifier, open_provider
from beliefrag.models.weights import missing_identity
from beliefrag.models.with_cache import CachedModel
from beliefrag.models.with_retries import RetryPolicy
from beliefrag.paths import cache_dir
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.prompts import Prompts
from beliefrag.retrieval import Bm25Index
from beliefrag.runs.cells import MEAN
from beliefrag.runs.errors import DataError
from beliefrag.runs.record import CalibrationRecord, DatasetRecord, RunRecord, now, versions
from beliefrag.runs.samples import Partition, partition, sample
from beliefrag.settings import Settings
from beliefrag.verifiers import build_verifier

__all__ = ["DatasetSetup", "RunSpec", "Setup", "chosen_methods", "set_up"]

_ALL = "all"
_PRIVATE_SETTINGS = {"base_url", "prompts"}
"""An address may hold a password and a folder a name; the model's identity and the prompts' hashes say what counts."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """What somebody wants to run."""

    data: tuple[Path, ...]
    methods: tuple[str, ...]
    own: tuple[Dataset, ...] = ()
    """Datasets that are not in a folder in the common form."""
    n: int | None = None
    """Questions of each dataset; None takes all."""
    seed: int = 0
    splits: tuple[str, ...] = ()
    """None of them takes all splits."""
    parts: tuple[Partition, ...] = ()
    """None of them takes all three parts."""
    judge: bool = True
    judge_model: str | None = None
    judge_base_url: str | None = None
    injection: Injection = Injection()
    """What takes the place of what searches find."""
    interventions: Mapping[str, Intervention] = field(default_factory=dict)
    """By dataset, the answerability that the calibrated methods decide with in place of their own."""
    replay: bool = False
    """Answer from the cache alone, and ask no model: weights that are known by name need not be on this machine."""
    preview: bool = False
    """Nothing will be asked: weights that are known by name need not be on this machine."""


@dataclass(frozen=True, slots=True)
class DatasetSetup:
    """One dataset, ready to run: what its episodes share."""

    name: str
    harness: Harness
    methods: Mapping[str, Method]
    questions: Mapping[str, LabelledQuestion]
    injector: Injector | None = None
    """Where something is injected into the hits."""

    def harness_for(self, labelled: LabelledQuestion) -> Harness:
        """The harness of one episode on a question: its own where something is injected, otherwise the shared one."""
        if self.injector is None:
            return self.harness
        return replace(self.harness, retriever=self.injector.around(self.harness.retriever, labelled))

    @property
    def spared(self) -> int:
        """How many questions nothing false can be said about, where false passages are injected."""
        if self.injector is None:
            return 0
        return sum(self.injector.falsehood(labelled) is None for labelled in self.questions.values())


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything opened."""

    courses: Mapping[str, DatasetSetup]
    record: RunRecord
    judge: Judge | None
    models: tuple[ChatModel, ...]

    @property
    def missing_keys(self) -> int:
        """How many requests a replay found no reply for."""
        return sum(model.missing for model in self.models if isinstance(model, CachedModel))

    async def aclose(self) -> None:
        """Lets go of the models."""
        for model in self.models:
            await model.aclose()


def chosen_methods(names: str) -> tuple[str, ...]:
    """The methods that a list with commas stands for, in the order of the tables; `all` in it stands for every one.

    Raises:
        SettingsError: One of them is not known.
    """
    given = [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in given if name not in METHODS and name != _ALL]:
        raise SettingsError(f"No method is called {unknown[0]!r}.", remedy=f"Known: all, {', '.join(METHODS)}.")
    if not given:
        raise SettingsError("No method is named.", remedy=f"Known: all, {', '.join(METHODS)}.")
    return tuple(name for name in METHODS if name in given or _ALL in given)


def set_up(
    settings: Settings,
    wanted: RunSpec,
    before: RunRecord | None = None,
    *,
    around: Callable[[ChatModel], ChatModel] = lambda model: model,
) -> Setup:
    """Opens everything, the cheap things first.

    Args:
        settings: Model, budget and the rest.
        wanted: What to run.
        before: The record of the run that goes on, if there is one. A replay takes the models' identities from it, so
            that neither weights nor a server need to be there.
        around: Puts a layer of one's own around the model that the episodes share.

    Raises:
        BeliefRAGError: Something cannot be used; the message says what.
    """
    verifier = build_verifier(settings.verifier or default_verifier(settings.model))
    prompts = Prompts.load(settings.prompts)
    model = around(_open(settings, wanted, before.model if before else None))
    judging = model
    if wanted.judge and (wanted.judge_model or wanted.judge_base_url):
        own = {"model": wanted.judge_model or settings.model, "base_url": wanted.judge_base_url or settings.base_url}
        judging = _open(settings.model_copy(update=own), wanted, before.judge if before else None)
    judge = Judge(judging, prompts) if wanted.judge else None
    artifact: Artifact | None = None
    thresholds = settings.thresholds
    if any(map(needs_calibration, wanted.methods)):
        here = RunConditions(model.identity, verifier.name, prompts.hashes(), Bm25Index.identity)
        artifact = select_artifact(here, calibration=settings.calibration, borrow=settings.borrow)
        thresholds = _held_to(settings, artifact, here, wanted)
    courses: dict[str, DatasetSetup] = {}
    records: dict[str, DatasetRecord] = {}
    for dataset in itertools.chain(map(load_dataset, wanted.data), wanted.own):
        if dataset.name == MEAN:
            raise DataError(
                f"A dataset cannot be called {MEAN}: tables call the mean over datasets so.",
                remedy="Rename its folder, or give it another name in its card.json.",
            )
        if dataset.name in courses:
            raise DataError(f"Two datasets are called {dataset.name}.", remedy="Name each folder once.")
        if not dataset.passages and set(wanted.methods) != {"no_rag"}:
            # Every method would be a closed book there, and its number would say nothing about it.
            raise DataError(
                f"{dataset.name} has no passages to search.",
                remedy="Import it again with --corpus, or run no_rag alone.",
            )
        index = Bm25Index.in_memory(searched_passages(dataset))
        scale = index.score_scale
        questions = _chosen(dataset, wanted)
        courses[dataset.name] = DatasetSetup(
            name=dataset.name,
            harness=Harness(model, index, prompts, verifier, settings.budget),
            methods={
                name: _intervened(_method(name, artifact, scale, thresholds), questions, wanted, dataset.name)
                for name in wanted.methods
            },
            questions={question.id: question for question in questions},
            injector=Injector(dataset, wanted.injection) if wanted.injection else None,
        )
        records[dataset.name] = DatasetRecord(
            fingerprint=index.fingerprint,
            gold=gold_hash(dataset.questions),
            passages=len(index),
            question_ids=tuple(question.id for question in questions),
            licence=dataset.card.licence,
            source=dataset.card.source,
            score_scale=scale,
            seen_by_calibration=artifact.seen(question.id for question in questions) if artifact else (),
        )
    record = RunRecord(
        made=now(),
        versions=versions(),
        model=model.identity,
        verifier=verifier.name,
        retriever=Bm25Index.identity,
        prompts=prompts.hashes(),
        budget=asdict(settings.budget),
        thresholds=asdict(thresholds),
        calibration=_calibration_record(artifact),
        judge=judge.identity if judge else None,
        seed=wanted.seed,
        methods=wanted.methods,
        datasets=records,
        injection=wanted.injection or None,
        interventions={name: each.identity for name, each in wanted.interventions.items() if name in courses},
        settings=settings.model_dump(mode="json", exclude=_PRIVATE_SETTINGS),
        price=model_price(model.identity, settings.prices),
        judge_price=judge_price(judge.identity, model.identity, settings.prices) if judge else None,
    )
    models = (model,) if judging is model else (model, judging)
    return Setup(courses, record, judge, models)


def _method(name: str, artifact: Artifact | None, scale: ScoreScale, thresholds: Thresholds) -> Method:
    inputs = MethodInputs(artifact.calibration(scale) if artifact else None, thresholds)
    return build_method(name, inputs, score_scale=scale)


def _intervened(method: Method, questions: Sequence[LabelledQuestion], wanted: RunSpec, dataset: str) -> Method:
    intervention = wanted.interventions.get(dataset)
    if intervention is None or not needs_calibration(method.name):
        return method
    return MethodWithIntervention(method, intervention, tuple(each.question for each in questions))


def _held_to(settings: Settings, artifact: Artifact, here: RunConditions, wanted: RunSpec) -> Thresholds:
    """The thresholds, with the one among them that keeps to the settings' largest error."""
    found = list(find_calibration_warnings(artifact, here))
    # The calibration is used as it is, for that is what such a run is about; but it promises nothing there.
    if wanted.injection:
        found.append(f"searches return {wanted.injection}")
    if wanted.interventions:
        found.append("it does not decide with its own answerability")
    guarantee = guarantee_from_settings(settings, artifact, prompts=here.prompts, calibration_warnings=found)
    return apply_guarantee(settings.thresholds, guarantee)


def _chosen(dataset: Dataset, wanted: RunSpec) -> Sequence[LabelledQuestion]:
    if wanted.splits:
        present = dataset.splits()
        # Benchmarks name their splits differently: each takes those that it has, and must have one.
        dataset = dataset.of_split(*([split for split in wanted.splits if split in present] or wanted.splits))
    questions = [each for each in dataset.questions if not wanted.parts or partition(each.id) in wanted.parts]
    if not questions:
        raise DataError(f"{dataset.name} has no questions to ask.", remedy="Name another folder, split or part.")
    return sample(questions, wanted.n or len(questions), wanted.seed)


def _open(settings: Settings, wanted: RunSpec, before: str | None) -> ChatModel:
    provider: ChatModel
    if wanted.replay and before is not None:
        provider = _Absent(before)
    elif (wanted.preview or wanted.replay) and (expected := missing_identity(settings.model)):
        provider = _Absent(expected)
    else:
        provider = open_provider(
            settings.model,
            base_url=settings.base_url,
            timeout=settings.timeout,
            context=settings.context,
            threads=settings.threads,
        )
    return compose(
        provider,
        cache=cache_dir() / "replies.sqlite" if settings.cache or wanted.replay else None,
        replay=wanted.replay,
        retry=RetryPolicy(seconds=settings.retry_seconds),
        limit=settings.concurrency,
    )


def _calibration_record(artifact: Artifact | None) -> CalibrationRecord | None:
    if artifact is None:
        return None
    return CalibrationRecord(name=artifact.name, sha256=artifact.sha256)


@dataclass(frozen=True, slots=True)
class _Absent:
    """Stands for a model that is not here, in a replay that never asks it."""

    identity: str

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise ModelError(f"The model {self.identity} is not here.", remedy="Run without --replay.")

    async def aclose(self) -> None:
        """There is nothing to let go of."""
