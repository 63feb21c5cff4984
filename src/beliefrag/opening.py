"""Puts the parts together as the settings say, once for `ask`, for `serve` and for `bench`.

`open_model` gives the model with its layers. `open_engine` gives what all episodes share whatever they search: model,
prompts, verifier form, calibration and guarantee. `assemble` adds passages to search and one method: all that a
question needs. A benchmark asks the engine itself for the harness of each dataset and for each method.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from beliefrag.answering.packing import describe_packing
from beliefrag.calibration import (
    Artifact,
    Guarantee,
    RunConditions,
    apply_guarantee,
    find_calibration_warnings,
    find_mismatches,
    saved_artifact_path,
    select_artifact,
    select_guarantee,
)
from beliefrag.calibration.risk import answers_needed
from beliefrag.calibration.shift import ShiftWatch
from beliefrag.engine.controller import Method
from beliefrag.engine.loop import Harness
from beliefrag.errors import BeliefRAGError, CalibrationError, CorpusError, ModelError, SettingsError
from beliefrag.methods import (
    METHODS,
    STATE_COLLECTORS,
    MethodInputs,
    SearchPlan,
    build_method,
    find_profile,
    needs_calibration,
    plan_search,
)
from beliefrag.models import (
    ChatModel,
    ChatReply,
    ChatRequest,
    Message,
    compose,
    default_verifier,
    is_served,
    open_provider,
)
from beliefrag.models.cache import reply_store_path
from beliefrag.models.compose import RetryPolicy
from beliefrag.models.weights import missing_identity
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
from beliefrag.retrieval.bm25 import MeasuresScores
from beliefrag.retrieval.filters import limit_retriever, parse_filter
from beliefrag.retrieval.rights import select_readable
from beliefrag.settings import DECLINE_BELOW, Settings, cache_dir
from beliefrag.types import Diagnostics, Passage
from beliefrag.verifiers import DRAFT_FORMS, VERIFIERS, VerifierForm

_T = TypeVar("_T")


def open_model(
    settings: Settings, *, replay: bool = False, preview: bool = False, identity: str | None = None
) -> ChatModel:
    """Open the model that the settings name, with cache, retries and limit around it.

    Args:
        settings: Which model, and how it is asked.
        replay: Answer from the cache alone, and ask no model.
        preview: Nothing will be asked. As in a replay, weights that are known by name need not be on this machine.
        identity: What the model of a recorded run called itself. A replay then needs neither weights nor a server.
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
class MethodParts:
    """What one method brings: how it searches and reads, and what was fitted for that."""

    search: SearchPlan
    verifier: VerifierForm
    artifact: Artifact | None = None
    """The calibration; None for a method that needs none."""
    calibration_warnings: tuple[str, ...] = ()
    """Why the calibration's probabilities may be off here."""
    guarantee: Guarantee | None = None
    """What the answers keep to, where the settings ask for it."""
    thresholds: Thresholds = Thresholds()
    """Those of the settings under the method's profile, with the one among them that keeps to the guarantee."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What all episodes share, and what each method brings."""

    settings: Settings
    model: ChatModel
    prompts: Prompts
    parts: Mapping[str, MethodParts]
    """By the name of the method or state collector."""

    def parts_of(self, text: str) -> MethodParts:
        """Return what the method brings that `NAME` or `NAME:key=value,...` names."""
        return self.parts[text.partition(":")[0]]

    def build_harness(self, text: str, retriever: Retriever, made_with: Mapping[str, str] | None = None) -> Harness:
        """Build what the episodes of one method over one retriever share."""
        parts = self.parts_of(text)
        return Harness(
            self.model,
            retriever,
            self.prompts,
            parts.verifier,
            self.settings.budget,
            made_with or {},
            parts.search.pack,
            self.settings.rules,
            candidates=profile.candidates if (profile := find_profile(text.partition(":")[0])) else 0,
            calibrated=None if parts.artifact is None else not parts.calibration_warnings,
        )

    def build_method(self, text: str, scale: ScoreScale | None) -> Method:
        """Build a method or state collector, over a retriever whose scores lie on that scale.

        Args:
            text: `NAME` or `NAME:key=value,...`; the settings hold further options.
            scale: Where the retriever's scores lie; None where they say nothing about relevance.
        """
        parts = self.parts_of(text)
        calibration = parts.artifact.calibration(scale) if parts.artifact else None
        inputs = MethodInputs(calibration, parts.thresholds)
        if text in STATE_COLLECTORS:
            return build_method(text, inputs, score_scale=scale)
        return build_method(METHODS.choose(text, self.settings.methods), inputs)

    def with_policy(self, settings: Settings, *, further_warnings: Sequence[str] = ()) -> Engine:
        """Return the same model, prompts and calibrations under another budget, other thresholds or another guarantee.

        Args:
            settings: They hold the policy; a model, verifier form or calibration in them is ignored.
            further_warnings: Why there can be no guarantee here, beside the warnings of the calibration.
        """
        parts = {
            name: _apply_policy(name, each, settings, self.prompts.hashes(), further_warnings)
            for name, each in self.parts.items()
        }
        return replace(self, settings=settings, parts=parts)


def _apply_policy(
    name: str, parts: MethodParts, settings: Settings, prompts: Mapping[str, str], further_warnings: Sequence[str]
) -> MethodParts:
    profile = find_profile(name)
    thresholds = profile.apply_to(settings.thresholds) if profile else settings.thresholds
    guarantee = None
    if parts.artifact is not None:
        guarantee = guarantee_from_settings(
            settings,
            parts.artifact,
            thresholds=thresholds,
            prompts=prompts,
            calibration_warnings=(*parts.calibration_warnings, *further_warnings),
        )
    return replace(parts, guarantee=guarantee, thresholds=apply_guarantee(thresholds, guarantee))


def open_engine(
    settings: Settings,
    *,
    methods: Sequence[str] = (),
    identities: Mapping[str, str | None] | None = None,
    model: ChatModel | None = None,
    further_warnings: Sequence[str] = (),
    documents: str = "",
    replay: bool = False,
) -> Engine:
    """Open what all episodes share and what each method brings. Nothing here reads documents.

    Args:
        settings: What to open.
        methods: The methods that will be built, as `NAME` or `NAME:key=value,...`; by default that of the settings.
        identities: By method, the identity of the retriever that it searches, where that is not the planned one.
        model: A model that is open already, in place of the one that the settings name.
        further_warnings: Why there can be no guarantee here, beside the warnings of the calibration.
        documents: The key of the documents, for which a calibration may have been saved.
        replay: No model is asked, not even whether it gives token probabilities.
    """
    texts = tuple(methods) or (settings.method,)
    chosen = [METHODS.choose(text, settings.methods) for text in texts if text not in STATE_COLLECTORS]
    is_calibrated = any(choice.extension.needs_calibration for choice in chosen)
    if settings.max_error is not None and not is_calibrated and len(chosen) == len(texts):
        raise _guarantee_unavailable(settings.max_error, ", ".join(texts))
    forms = {text.partition(":")[0]: VERIFIERS.choose(choose_verifier(settings, text, replay=replay)) for text in texts}
    prompts = Prompts.load(settings.prompts)
    model = model or open_model(settings)
    parts: dict[str, MethodParts] = {}
    for name, form in forms.items():
        search = plan_search(settings, name)
        parts[name] = MethodParts(search, form.build(None))
        if needs_calibration(name):
            known = (identities or {}).get(name, _planned_identity(search, settings))
            searched = None if known is None else describe_packing(known, search.pack, settings.rules)
            here = RunConditions(model.identity, str(form), prompts.hashes(), searched)
            artifact = select_artifact(
                here,
                calibration=settings.calibration,
                borrow=settings.borrow,
                saved=saved_artifact_path(model.identity, form.name, documents) if documents else None,
                any_retriever=form.name in DRAFT_FORMS,
            )
            if settings.profile and not (settings.calibration or settings.borrow) and find_mismatches(artifact, here):
                raise CalibrationError(
                    f"The profile paper takes no other model's calibration, and {model.identity} has none.",
                    remedy="Fit one with 'beliefrag reproduce' or 'beliefrag calibrate fit', or name one to --borrow.",
                )
            warnings = find_calibration_warnings(artifact, here)
            parts[name] = replace(parts[name], artifact=artifact, calibration_warnings=warnings)
    return Engine(settings, model, prompts, parts).with_policy(settings, further_warnings=further_warnings)


def _planned_identity(search: SearchPlan, settings: Settings) -> str | None:
    return known_identity(RETRIEVERS.choose(search.retriever, settings.retrievers))


def choose_verifier(settings: Settings, text: str, *, replay: bool = False) -> str:
    """Return the verifier form of a method.

    A method whose profile reads drafts gets `draft`, or `stated` for a model without token probabilities. A served
    model is asked once for a token to find out; with `replay` only the recorded reply counts. Any other method gets
    what the settings say or what suits the model.
    """
    form = settings.verifier or default_verifier(settings.model)
    profile = find_profile(text.partition(":")[0])
    if profile is None or not profile.reads_draft or form in DRAFT_FORMS:
        return form
    has_tokens = VERIFIERS.choose(form).extension.needs_token_probabilities
    if settings.verifier is None and is_served(settings.model):
        has_tokens = run_to_end(_reports_tokens(settings, replay=replay))
    return DRAFT_FORMS[0] if has_tokens else DRAFT_FORMS[1]


async def _reports_tokens(settings: Settings, *, replay: bool) -> bool:
    """Return whether the model gives token probabilities. The cache keeps what it replied."""
    request = ChatRequest("capabilities", (Message("user", "Reply with yes."),), max_tokens=1, top_logprobs=1)
    # A server that fails says so to the first question.
    with contextlib.suppress(BeliefRAGError):
        model = open_model(settings.model_copy(update={"retry_seconds": 0.0}), replay=replay)
        async with contextlib.aclosing(model):
            return bool((await model.chat(request)).tokens)
    return False


def run_to_end(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine to its end, also where a notebook already runs an event loop in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(asyncio.run, work).result()


@dataclass(frozen=True, slots=True)
class Assembly:
    """All that a question needs, ready to run."""

    engine: Engine
    harness: Harness
    method: Method
    scale: ScoreScale | None = None
    """Where the retriever's scores lie; None where they say nothing about relevance."""
    report: IndexReport | None = None
    """What reading the documents came to, where documents were read."""
    closes_retriever: bool = True
    """False for a retriever that the user has given, and closes."""

    async def aclose(self) -> None:
        """Close the model, and the retriever that was opened here."""
        await self.model.aclose()
        if self.closes_retriever:
            close_retriever(self.harness.retriever)

    def limit(self, where: str | None) -> Assembly:
        """Return the same, with every search limited by a filter beside those that hold already."""
        if not where:
            return self
        held = self.harness.made_with.get("where")
        made_with = {**self.harness.made_with, "where": f"({held}) and ({where})" if held else where}
        retriever = limit_retriever(self.harness.retriever, where)
        return replace(self, harness=replace(self.harness, retriever=retriever, made_with=made_with))

    @property
    def model(self) -> ChatModel:
        """The model, with its layers."""
        return self.engine.model

    @property
    def parts(self) -> MethodParts:
        """What the method brings."""
        return self.engine.parts_of(self.engine.settings.method)

    @property
    def promise(self) -> str:
        """The guarantee in words, with what it depends on here; empty without one."""
        return self.harness.made_with.get("guarantee", "")


def assemble(
    settings: Settings,
    *,
    docs: str | Path | Iterable[str | Path] | None = None,
    passages: Iterable[Passage] | None = None,
    index: str | Path | None = None,
    retriever: Retriever | None = None,
    progress: OnProgress | None = None,
    where: str | None = None,
) -> Assembly:
    """Open everything. The cheap things come first so that a wrong setting is reported before documents are read.

    Args:
        settings: What to open.
        docs: Files and folders; their index is kept in the cache and refreshed.
        passages: Passages to hold in memory.
        index: An index made by `beliefrag index`.
        retriever: A retriever of your own, in place of the one that the settings choose.
        progress: Called while documents are read.
        where: A filter that every search is limited by, such as `type=pdf and year>=2024`.
    """
    if where:
        parse_filter(where)
    source = PassageSource(docs=docs, passages=passages, index=index, progress=progress, reading=settings.reading)
    if retriever is not None and source.is_given:
        raise SettingsError(
            f"Needs one source of passages, and 2 were given: a retriever and {source}.",
            remedy="Leave one of them out.",
        )
    choice = RETRIEVERS.choose(plan_search(settings, settings.method).retriever, settings.retrievers)
    identity = known_identity(choice)
    found = check_retriever(retriever) if retriever is not None else None
    if found is None and (identity is None or not source.is_given):
        found = open_retriever(choice, source)
    name = settings.method.partition(":")[0]
    identities = {name: identity if found is None else found.identity}
    engine = open_engine(settings, identities=identities, documents=source.documents)
    if found is None:
        found = open_retriever(choice, source)
    return _search_in(engine, found, source, closes_retriever=retriever is None).limit(where)


def assemble_by_groups(
    settings: Settings,
    *,
    docs: str | Path | Iterable[str | Path] | None = None,
    index: str | Path | None = None,
    progress: OnProgress | None = None,
    engine: Engine | None = None,
    where: str | None = None,
) -> dict[frozenset[str], Assembly]:
    """Open everything once for each set of groups that the settings know, and once for no group, which reads nothing.

    Each searches an index in memory of what its groups may read. The model is shared.
    """
    choice = RETRIEVERS.choose(plan_search(settings, settings.method).retriever, settings.retrievers)
    name = settings.method.partition(":")[0]
    # A reply from the cache would tell a client that another one has asked the same of the same passages.
    engine = engine or open_engine(
        settings.model_copy(update={"cache": False}), identities={name: known_identity(choice)}
    )
    whole = PassageSource(docs=docs, index=index, progress=progress, reading=settings.reading)
    passages = whole.open_index()
    assemblies = {}
    for groups in {frozenset[str](), *(frozenset(rule.groups) for rule in settings.access.tokens)}:
        own = PassageSource(passages=select_readable(passages, settings.access.paths, groups))
        own.report = whole.report
        try:
            found = open_retriever(choice, own)
        except CorpusError as problem:
            raise SettingsError(
                f"The retriever {choice.name!r} searches one index for all clients, so access rules cannot apply.",
                remedy="Leave [[access.tokens]] out, or choose another retriever.",
            ) from problem
        assemblies[groups] = _search_in(engine, found, own, closes_retriever=True).limit(where)
    return assemblies


def open_search(
    settings: Settings,
    *,
    docs: str | Path | Iterable[str | Path] | None = None,
    index: str | Path | None = None,
    progress: OnProgress | None = None,
    where: str | None = None,
) -> Retriever:
    """Open what searches for the method of the settings, without a model. The arguments are those of `assemble`."""
    if where:
        parse_filter(where)
    choice = RETRIEVERS.choose(plan_search(settings, settings.method).retriever, settings.retrievers)
    source = PassageSource(docs=docs, index=index, progress=progress, reading=settings.reading)
    return limit_retriever(open_retriever(choice, source), where)


def _search_in(engine: Engine, found: Retriever, source: PassageSource, *, closes_retriever: bool) -> Assembly:
    """Put the engine and a retriever together."""
    settings = engine.settings
    corpus = getattr(found, "fingerprint", None) or source.fingerprint
    scale = _choose_scale(engine, found, corpus)
    searched = getattr(found, "index", found)
    harness = engine.build_harness(settings.method, found, _collect_made_with(engine, found, corpus))
    assembly = Assembly(
        engine,
        replace(harness, collection=len(searched) if isinstance(searched, Sized) else None),
        engine.build_method(settings.method, scale),
        scale,
        source.report,
        closes_retriever=closes_retriever,
    )
    return change_policy(assembly, settings)


def _choose_scale(engine: Engine, retriever: Retriever, corpus: str | None) -> ScoreScale | None:
    """Return the scale that the calibration was fitted with on this very corpus, or else the retriever's own."""
    artifact = engine.parts_of(engine.settings.method).artifact
    if corpus and artifact and isinstance(retriever, MeasuresScores):
        return artifact.find_scale(corpus) or retriever.score_scale
    return retriever.score_scale


def reopen_passages(
    assembly: Assembly,
    *,
    docs: str | Path | Iterable[str | Path] | None = None,
    index: str | Path | None = None,
) -> Assembly | dict[frozenset[str], Assembly]:
    """Return the same model, method, retriever and policy over the passages as they are now, opened again.

    Args:
        assembly: What was opened.
        docs: The documents; what has changed in them is read again.
        index: The index made by `beliefrag index`.
    """
    engine, where = assembly.engine, assembly.harness.made_with.get("where")
    if engine.settings.access.tokens:
        return assemble_by_groups(engine.settings, docs=docs, index=index, engine=engine, where=where)
    source = PassageSource(docs=docs, index=index, reading=engine.settings.reading)
    choice = RETRIEVERS.choose(engine.parts_of(engine.settings.method).search.retriever, engine.settings.retrievers)
    return _search_in(engine, open_retriever(choice, source), source, closes_retriever=True).limit(where)


def change_policy(assembly: Assembly, settings: Settings) -> Assembly:
    """Return the same model and documents under another budget, other thresholds or another guarantee.

    A server of many questions opens everything once and lets single questions differ in what they may spend and in
    when to answer.

    Args:
        assembly: What was opened.
        settings: They hold the policy; whatever else they say is passed over.
    """
    settings = decline_by_default(settings)
    engine = assembly.engine.with_policy(settings)
    parts = engine.parts_of(settings.method)
    if settings.max_error is not None and parts.artifact is None:
        raise _guarantee_unavailable(settings.max_error, assembly.method.name)
    made_with = {name: value for name, value in assembly.harness.made_with.items() if name != "guarantee"}
    watch = None
    if parts.guarantee:
        made_with["guarantee"] = parts.guarantee.words(made_with.get("corpus"))
        watch = _watch_questions(parts.guarantee, made_with.get("corpus", "passages"))
    return replace(
        assembly,
        engine=engine,
        harness=replace(
            assembly.harness,
            budget=settings.budget,
            made_with=made_with,
            guesses=bool(parts.thresholds.decline_below),
            watch=watch,
            style=settings.answer_style or "short",
            asks_back=settings.thresholds.abstain,
        ),
        method=engine.build_method(settings.method, assembly.scale),
    )


def _watch_questions(guarantee: Guarantee, corpus: str) -> Callable[[Diagnostics], Mapping[str, str]] | None:
    """Return what notices that the questions about a corpus are unlike those of the guarantee."""
    if not guarantee.spread:
        return None
    watch = ShiftWatch(guarantee.spread, cache_dir() / "asked" / f"{corpus}.json")
    needed = answers_needed(guarantee.max_error, guarantee.confidence)

    def judge(state: Diagnostics) -> Mapping[str, str]:
        differs = watch.add(state)
        return {"guarantee": guarantee.describe_shift(differs, needed)} if differs else {}

    return judge


def decline_by_default(settings: Settings) -> Settings:
    """Return the settings with the threshold of declining that people get where they have set none."""
    thresholds = settings.thresholds
    if not thresholds.abstain or thresholds.decline_below is not None or settings.max_error is not None:
        return settings
    return settings.model_copy(update={"thresholds": replace(thresholds, decline_below=DECLINE_BELOW)})


def guarantee_from_settings(
    settings: Settings,
    artifact: Artifact,
    *,
    thresholds: Thresholds,
    prompts: Mapping[str, str],
    calibration_warnings: Sequence[str],
) -> Guarantee | None:
    """Return the guarantee that the settings ask for; None where they ask for none.

    Args:
        settings: They hold the policy that it must hold for.
        artifact: The calibration in use.
        thresholds: Those of the settings under the profile of the method.
        prompts: Hash of each prompt in use.
        calibration_warnings: Why the artifact's probabilities may be off here.
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
        thresholds=thresholds,
        budget=settings.budget,
        prompts=prompts,
        calibration_warnings=calibration_warnings,
    )


def _guarantee_unavailable(max_error: float, methods: str) -> SettingsError:
    return SettingsError(
        f"max_error {max_error:g} needs a method with a calibration, and {methods} has none.",
        remedy="Use the method beliefrag, or leave max_error out.",
    )


def _collect_made_with(engine: Engine, retriever: Retriever, corpus: str | None) -> dict[str, str]:
    """Collect what shaped the episodes and is in no other field of the record."""
    made_with: dict[str, str] = {}
    options = METHODS.choose(engine.settings.method, engine.settings.methods).changed_options()
    if options:
        made_with["method_options"] = ", ".join(f"{name}={value}" for name, value in options.items())
    parts = engine.parts_of(engine.settings.method)
    if parts.artifact is not None:
        made_with["calibration"] = "; ".join([parts.artifact.name, *parts.calibration_warnings])
        if retriever.score_scale is None:
            made_with["relevance"] = (
                f"{NEUTRAL_RELEVANCE:g} for all evidence, because the scores of this retriever say nothing about it"
            )
    if retriever.identity not in (None, Bm25Index.identity):
        made_with["retriever"] = str(retriever.identity)
    if (searched := describe_engine(retriever)) is not None:
        made_with["engine"] = searched
    if parts.search.pack is not None:
        made_with["pack"] = f"{parts.search.pack} words"
    if corpus:
        made_with["corpus"] = corpus
    return made_with


@dataclass(frozen=True, slots=True)
class _AbsentModel:
    """Stands for a model that is not here, in a replay or a preview, which never asks it."""

    identity: str

    async def chat(self, request: ChatRequest) -> ChatReply:
        raise ModelError(f"The model {self.identity} is not available in a replay.", remedy="Run without --replay.")

    async def aclose(self) -> None:
        """Nothing is open."""
