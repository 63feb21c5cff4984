"""Puts the parts together as the settings say, once for `ask`, for `serve` and for `bench`.

`open_model` gives the model with its layers. `open_engine` gives what all episodes share whatever they search: model,
prompts, verifier form, calibration and guarantee. `assemble` adds passages to search and one method: all that a
question needs. A benchmark asks the engine itself for the harness of each dataset and for each method.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beliefrag.calibration import (
    Artifact,
    Guarantee,
    RunConditions,
    apply_guarantee,
    find_calibration_warnings,
    select_artifact,
    select_guarantee,
)
from beliefrag.engine.controller import Method
from beliefrag.engine.loop import Harness
from beliefrag.errors import ModelError, SettingsError
from beliefrag.methods import (
    METHODS,
    STATE_COLLECTORS,
    MethodInputs,
    build_method,
    choose_search,
    needs_calibration,
    reads_draft,
)
from beliefrag.models import ChatModel, ChatReply, ChatRequest, compose, default_verifier, open_provider
from beliefrag.models.reply_store import reply_store_path
from beliefrag.models.weights import missing_identity
from beliefrag.models.with_retries import RetryPolicy
from beliefrag.policy import NEUTRAL_RELEVANCE, ScoreScale, Thresholds
from beliefrag.prompts import Prompts
from beliefrag.retrieval import (
    RETRIEVERS,
    Bm25Index,
    IndexReport,
    OnProgress,
    PassageSource,
    Retriever,
    check_retriever,
    close_retriever,
    describe_engine,
    known_identity,
    open_retriever,
)
from beliefrag.retrieval.packing import describe_packing
from beliefrag.retrieval.score_sample import MeasuresScores
from beliefrag.settings import PLAIN_RETRIEVER, Settings
from beliefrag.types import Passage
from beliefrag.verifiers import DRAFT_FORMS, VERIFIERS, VerifierForm

__all__ = [
    "Assembly",
    "Engine",
    "assemble",
    "change_policy",
    "choose_verifier",
    "guarantee_from_settings",
    "open_engine",
    "open_model",
    "reopen_passages",
]


def open_model(
    settings: Settings, *, replay: bool = False, preview: bool = False, identity: str | None = None
) -> ChatModel:
    """Opens the model that the settings name, with cache, retries and limit around it.

    Args:
        settings: Which model, and how it is asked.
        replay: Answer from the cache alone, and ask no model.
        preview: Nothing will be asked. As in a replay, weights that are known by name need not be on this machine.
        identity: What the model of a recorded run called itself. A replay then needs neither weights nor a server.

    Raises:
        ModelError: The model cannot be used.
        SettingsError: The address, the script or the cache cannot be used.
    """
    absent = identity if replay else None
    if absent is None and (replay or preview):
        absent = missing_identity(settings.model)
    provider: ChatModel
    if absent is not None:
        provider = _AbsentModel(absent)
    else:
        provider = open_provider(
            settings.model,
            base_url=settings.base_url,
            timeout=settings.timeout,
            context=settings.context,
            threads=settings.threads,
            options=settings.models,
        )
    return compose(
        provider,
        cache=reply_store_path() if settings.cache or replay else None,
        replay=replay,
        retry=RetryPolicy(seconds=settings.retry_seconds),
        limit=settings.concurrency,
    )


@dataclass(frozen=True, slots=True)
class Engine:
    """What all episodes share, whatever they search and by whichever method."""

    settings: Settings
    model: ChatModel
    prompts: Prompts
    verifier: VerifierForm
    artifact: Artifact | None = None
    """The calibration; None where no method needs one."""
    calibration_warnings: tuple[str, ...] = ()
    """Why the calibration's probabilities may be off here."""
    guarantee: Guarantee | None = None
    """What the answers keep to, where the settings ask for it."""
    draft_engine: Engine | None = None
    """The same for methods that read their own draft, where there are such beside others: their own form, calibration
    and guarantee."""

    @property
    def thresholds(self) -> Thresholds:
        """The thresholds in force: those of the settings, with the one among them that keeps to the guarantee."""
        return apply_guarantee(self.settings.policy_thresholds, self.guarantee)

    def build_harness(self, retriever: Retriever, made_with: Mapping[str, str] | None = None) -> Harness:
        """Gives the parts that the episodes over one retriever share."""
        return Harness(
            self.model,
            retriever,
            self.prompts,
            self.verifier,
            self.settings.budget,
            made_with or {},
            self.settings.pack,
        )

    def build_method(self, text: str, scale: ScoreScale | None, *, with_promise: bool = True) -> Method:
        """Builds a method or state collector, over a retriever whose scores lie on that scale.

        Args:
            text: `NAME` or `NAME:key=value,...`; the settings hold further options.
            scale: Where the retriever's scores lie; None where they have no say about relevance.
            with_promise: Whether the reason of an answer that is held back names the guarantee.

        Raises:
            SettingsError: The method or an option is not known.
            CalibrationError: The method needs a calibration, and the engine was not opened with one.
        """
        if self.draft_engine is not None and reads_draft(text.partition(":")[0]):
            return self.draft_engine.build_method(text, scale, with_promise=with_promise)
        calibration = self.artifact.calibration(scale) if self.artifact else None
        promise = str(self.guarantee) if self.guarantee and with_promise else ""
        inputs = MethodInputs(calibration, self.thresholds, promise, self.verifier)
        if text in STATE_COLLECTORS:
            return build_method(text, inputs, score_scale=scale)
        return build_method(METHODS.choose(text, self.settings.methods), inputs)

    def with_policy(self, settings: Settings, *, further_warnings: Sequence[str] = ()) -> Engine:
        """Gives the same model, prompts and calibration under another budget, other thresholds or another guarantee.

        Args:
            settings: They hold the policy; a model, verifier form or calibration in them is passed over.
            further_warnings: Why there can be no guarantee here, beside what speaks against the calibration.

        Raises:
            CalibrationError: There is no such guarantee for this policy.
        """
        guarantee = None
        if self.artifact is not None:
            against = (*self.calibration_warnings, *further_warnings)
            guarantee = guarantee_from_settings(
                settings, self.artifact, prompts=self.prompts.hashes(), calibration_warnings=against
            )
        beside = self.draft_engine and self.draft_engine.with_policy(settings, further_warnings=further_warnings)
        return replace(self, settings=settings, guarantee=guarantee, draft_engine=beside)


def open_engine(
    settings: Settings,
    *,
    methods: Sequence[str] = (),
    retriever: str | None = Bm25Index.identity,
    model: ChatModel | None = None,
    further_warnings: Sequence[str] = (),
) -> Engine:
    """Opens what all episodes share. Nothing here reads documents, so a wrong setting is told at once.

    Args:
        settings: What to open.
        methods: The methods that will be built, as `NAME` or `NAME:key=value,...`; by default that of the settings.
        retriever: The identity of what is searched; None where it does not say what it is.
        model: A model that is open already, in place of the one that the settings name.
        further_warnings: Why there can be no guarantee here, beside what speaks against the calibration.

    Raises:
        SettingsError: A setting cannot be used.
        CalibrationError: There is no calibration for the model, verifier form, prompts and retriever, or it does not
            hold the guarantee that the settings ask for.
        ModelError: The model cannot be used.
    """
    names = tuple(methods) or (settings.method,)
    chosen = [METHODS.choose(name, settings.methods) for name in names if name not in STATE_COLLECTORS]
    calibrated = any(choice.extension.needs_calibration for choice in chosen)
    if settings.max_error is not None and not calibrated and len(chosen) == len(names):
        raise _no_promise(settings.max_error, ", ".join(names))
    drafting = [name for name in names if reads_draft(name.partition(":")[0])]
    others = [name for name in names if _rests_on_verifier(name.partition(":")[0])]
    verifier = VERIFIERS.choose(choose_verifier(settings, names))
    prompts = Prompts.load(settings.prompts)
    engine = Engine(settings, model or open_model(settings), prompts, verifier.build(None))
    if drafting and others:
        beside = open_engine(
            settings, methods=drafting, retriever=retriever, model=engine.model, further_warnings=further_warnings
        )
        engine = replace(engine, draft_engine=beside)
        calibrated = any(needs_calibration(name.partition(":")[0]) for name in others)
    if calibrated:
        searched = None if retriever is None else describe_packing(retriever, settings.pack)
        here = RunConditions(engine.model.identity, str(verifier), prompts.hashes(), searched)
        artifact = select_artifact(
            here, calibration=settings.calibration, borrow=settings.borrow, any_retriever=verifier.name in DRAFT_FORMS
        )
        engine = replace(engine, artifact=artifact, calibration_warnings=find_calibration_warnings(artifact, here))
    return engine.with_policy(settings, further_warnings=further_warnings)


def _rests_on_verifier(name: str) -> bool:
    """Whether the probabilities of a method or state collector rest on what the verifier form of the run says."""
    return (name in STATE_COLLECTORS or needs_calibration(name)) and not reads_draft(name)


def choose_verifier(settings: Settings, methods: Sequence[str]) -> str:
    """The verifier form of a run.

    Where only methods that read their own draft rest on it, that is `draft`, or `stated` for a model without token
    probabilities; otherwise what the settings say or what suits the model.

    Raises:
        SettingsError: No verifier form or method is called that.
    """
    names = [name.partition(":")[0] for name in methods]
    form = settings.verifier or default_verifier(settings.model)
    for_drafts = any(map(reads_draft, names)) and not any(_rests_on_verifier(name) for name in names)
    if not for_drafts or form in DRAFT_FORMS:
        return form
    return DRAFT_FORMS[0] if VERIFIERS.choose(form).extension.needs_token_probabilities else DRAFT_FORMS[1]


@dataclass(frozen=True, slots=True)
class Assembly:
    """All that a question needs, ready to run."""

    engine: Engine
    harness: Harness
    method: Method
    scale: ScoreScale | None = None
    """Where the retriever's scores lie; None where they have no say about relevance."""
    report: IndexReport | None = None
    """What reading the documents came to, where documents were read."""
    closes_retriever: bool = True
    """False for a retriever that the user has given, and closes."""

    async def aclose(self) -> None:
        """Closes the model, and the retriever that was opened here."""
        await self.model.aclose()
        if self.closes_retriever:
            close_retriever(self.harness.retriever)

    @property
    def model(self) -> ChatModel:
        """The model, with its layers."""
        return self.engine.model

    @property
    def promise(self) -> str:
        """The guarantee in words, with what it depends on here; empty where there is none."""
        return self.harness.made_with.get("guarantee", "")


def assemble(
    settings: Settings,
    *,
    docs: str | Path | Iterable[str | Path] | None = None,
    passages: Iterable[Passage] | None = None,
    index: str | Path | None = None,
    retriever: Retriever | None = None,
    progress: OnProgress | None = None,
) -> Assembly:
    """Opens everything. The cheap things come first, so that a wrong setting is told before documents are read.

    Args:
        settings: What to open.
        docs: Files and folders; their index is kept in the cache and refreshed.
        passages: Passages to hold in memory.
        index: An index made by `beliefrag index`.
        retriever: A retriever of your own, in place of the one that the settings choose.
        progress: Called while documents are read.

    Raises:
        SettingsError: A setting cannot be used, or the retriever has not the passages that it needs.
        CalibrationError: There is no calibration for the model, verifier form, prompts and retriever.
        CorpusError: The documents or the index cannot be used.
        ModelError: The model cannot be used.
    """
    settings = choose_search(settings, [settings.method])
    source = PassageSource(docs=docs, passages=passages, index=index, progress=progress)
    if retriever is not None and source.is_given:
        raise SettingsError(
            f"Needs one source of passages, and 2 were given: a retriever and {source}.",
            remedy="Leave one of them out.",
        )
    choice = RETRIEVERS.choose(settings.retriever or PLAIN_RETRIEVER, settings.retrievers)
    identity = known_identity(choice)
    found = check_retriever(retriever) if retriever is not None else None
    if found is None and (identity is None or not source.is_given):
        found = open_retriever(choice, source)
    engine = open_engine(settings, retriever=identity if found is None else found.identity)
    if found is None:
        found = open_retriever(choice, source)
    corpus = getattr(found, "fingerprint", None) or source.fingerprint
    scale = _choose_scale(engine, found, corpus)
    assembly = Assembly(
        engine,
        engine.build_harness(found, _collect_made_with(engine, found, corpus)),
        engine.build_method(settings.method, scale),
        scale,
        source.report,
        closes_retriever=retriever is None,
    )
    return change_policy(assembly, settings)


def _choose_scale(engine: Engine, retriever: Retriever, corpus: str | None) -> ScoreScale | None:
    """Gives the scale that the calibration was fitted with on this very corpus, or else the retriever's own."""
    if corpus and engine.artifact and isinstance(retriever, MeasuresScores):
        return engine.artifact.find_scale(corpus) or retriever.score_scale
    return retriever.score_scale


def reopen_passages(
    assembly: Assembly,
    *,
    docs: str | Path | Iterable[str | Path] | None = None,
    index: str | Path | None = None,
) -> Assembly:
    """Gives the same model, method and policy over the passages as they are now, opened again.

    Args:
        assembly: What was opened.
        docs: The documents; what has changed in them is read again.
        index: The index made by `beliefrag index`.

    Raises:
        SettingsError: The retriever has not the passages that it needs.
        CorpusError: The documents or the index cannot be used.
    """
    engine = assembly.engine
    source = PassageSource(docs=docs, index=index)
    found = open_retriever(
        RETRIEVERS.choose(engine.settings.retriever or PLAIN_RETRIEVER, engine.settings.retrievers), source
    )
    corpus = getattr(found, "fingerprint", None) or source.fingerprint
    made_with = _collect_made_with(engine, found, corpus)
    scale = _choose_scale(engine, found, corpus)
    reopened = replace(assembly, harness=engine.build_harness(found, made_with), scale=scale, report=source.report)
    return change_policy(reopened, engine.settings)


def change_policy(assembly: Assembly, settings: Settings) -> Assembly:
    """Gives the same model and documents under another budget, other thresholds or another guarantee.

    A server of many questions opens everything once and lets single questions differ in what they may spend and in
    when to answer.

    Args:
        assembly: What was opened.
        settings: They hold the policy; whatever else they say is passed over.

    Raises:
        SettingsError: A largest error is asked for, and the method has no calibration.
        CalibrationError: There is no such guarantee for this policy.
    """
    engine = assembly.engine.with_policy(settings)
    if settings.max_error is not None and engine.artifact is None:
        raise _no_promise(settings.max_error, assembly.method.name)
    made_with = {name: value for name, value in assembly.harness.made_with.items() if name != "guarantee"}
    if engine.guarantee:
        made_with["guarantee"] = engine.guarantee.words(made_with.get("corpus"))
    return replace(
        assembly,
        engine=engine,
        harness=replace(
            assembly.harness,
            budget=settings.budget,
            made_with=made_with,
            decline_below=_choose_decline_threshold(settings, engine.guarantee),
            # A guarantee was measured under the paper's rule, and holds under it alone.
            keep_when_correcting=settings.keep_when_correcting and engine.guarantee is None,
        ),
        method=engine.build_method(settings.method, assembly.scale),
    )


def _choose_decline_threshold(settings: Settings, guarantee: Guarantee | None) -> float | None:
    """Gives the answerability below which no answer is given; None where every answer is."""
    if not settings.thresholds.abstain:
        return None
    if guarantee is not None:
        return guarantee.threshold
    least = settings.thresholds.least_answerability
    return settings.decline_below if least is None else least


def guarantee_from_settings(
    settings: Settings, artifact: Artifact, *, prompts: Mapping[str, str], calibration_warnings: Sequence[str]
) -> Guarantee | None:
    """Gives the guarantee that the settings ask for; None where they ask for none.

    Args:
        settings: They hold the policy that it must hold for.
        artifact: The calibration in use.
        prompts: Hash of each prompt in use.
        calibration_warnings: Why the artifact's probabilities may be off here.

    Raises:
        CalibrationError: There is no such guarantee here.
    """
    if settings.max_error is None:
        return None
    changed = METHODS.choose(settings.method, settings.methods).changed_options() if settings.method else {}
    if changed:
        named = ", ".join(f"{name}={value}" for name, value in changed.items())
        calibration_warnings = [*calibration_warnings, f"it was made without the options {named} of {settings.method}"]
    return select_guarantee(
        artifact,
        max_error=settings.max_error,
        confidence=settings.confidence,
        thresholds=settings.policy_thresholds,
        budget=settings.budget,
        prompts=prompts,
        calibration_warnings=calibration_warnings,
    )


def _no_promise(max_error: float, methods: str) -> SettingsError:
    return SettingsError(
        f"max_error {max_error:g} needs a method with a calibration, and {methods} has none.",
        remedy="Use the method beliefrag, or leave max_error out.",
    )


def _collect_made_with(engine: Engine, retriever: Retriever, corpus: str | None) -> dict[str, str]:
    """Collects what shaped the episodes and stands in no other field of a trace."""
    made_with: dict[str, str] = {}
    options = METHODS.choose(engine.settings.method, engine.settings.methods).changed_options()
    if options:
        made_with["method_options"] = ", ".join(f"{name}={value}" for name, value in options.items())
    if engine.artifact is not None:
        made_with["calibration"] = "; ".join([engine.artifact.name, *engine.calibration_warnings])
        if retriever.score_scale is None:
            made_with["relevance"] = (
                f"{NEUTRAL_RELEVANCE:g} for all evidence, because the scores of this retriever have no say about it"
            )
    if retriever.identity not in (None, Bm25Index.identity):
        made_with["retriever"] = str(retriever.identity)
    if (searched := describe_engine(retriever)) is not None:
        made_with["engine"] = searched
    if engine.settings.pack is not None:
        made_with["pack"] = f"{engine.settings.pack} words"
    if corpus:
        made_with["corpus"] = corpus
    return made_with


@dataclass(frozen=True, slots=True)
class _AbsentModel:
    """Stands for a model that is not here, in a replay or a preview, which never asks it."""

    identity: str

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise ModelError(f"The model {self.identity} is not here.", remedy="Run without --replay.")

    async def aclose(self) -> None:
        """Nothing is open."""
