"""Puts the parts together as the settings say: model, retriever, prompts, verifier, calibration, method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beliefrag.calibration import (
    Artifact,
    Circumstances,
    Guarantee,
    artifact_for,
    doubts,
    guarantee_for,
    under_guarantee,
)
from beliefrag.engine.loop import Harness
from beliefrag.errors import SettingsError
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.models import ChatModel, compose, default_verifier, open_provider
from beliefrag.models.retry import RetryPolicy
from beliefrag.paths import cache_dir
from beliefrag.policy import ScoreScale
from beliefrag.prompts import Prompts
from beliefrag.retrieval import Bm25Index, IndexReport, OnProgress, Retriever, docs_index
from beliefrag.retrieval.scale import score_scale
from beliefrag.settings import Settings
from beliefrag.types import Passage
from beliefrag.verifiers import build_verifier

__all__ = ["Assembly", "assemble", "guarantee_in_force", "open_model", "under_policy"]

_UNKNOWN_SCALE = ScoreScale(location=20.0, scale=8.0)
"""For a retriever of the user's own with an artifact that has no scale: typical BM25 scores of a question."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """All that an episode needs, ready to run."""

    model: ChatModel
    harness: Harness
    method: BeliefRAGMethod
    artifact: Artifact
    doubts: tuple[str, ...] = ()
    """Why the artifact's probabilities may be off here."""
    guarantee: Guarantee | None = None
    """What the answers keep to, where the settings ask for it."""
    promise: str = ""
    """The same in words, with what it depends on here."""
    report: IndexReport | None = None
    """What reading the documents came to, where documents were read."""


def open_model(settings: Settings) -> ChatModel:
    """The model that the settings name, with cache, retries and limit around it."""
    provider = open_provider(
        settings.model,
        base_url=settings.base_url,
        timeout=settings.timeout,
        context=settings.context,
        threads=settings.threads,
    )
    return compose(
        provider,
        cache=cache_dir() / "replies.sqlite" if settings.cache else None,
        retry=RetryPolicy(seconds=settings.retry_seconds),
        limit=settings.concurrency,
    )


def guarantee_in_force(
    settings: Settings, artifact: Artifact, *, prompts: Mapping[str, str], doubts: Sequence[str]
) -> Guarantee | None:
    """The guarantee that the settings ask for; None where they ask for none.

    Args:
        settings: With the policy that it must hold for.
        artifact: The calibration in use.
        prompts: Hash of each prompt in use.
        doubts: Why the artifact's probabilities may be off here.

    Raises:
        CalibrationError: There is no such guarantee here.
    """
    if settings.max_error is None:
        return None
    return guarantee_for(
        artifact,
        max_error=settings.max_error,
        confidence=settings.confidence,
        thresholds=settings.thresholds,
        budget=settings.budget,
        prompts=prompts,
        doubts=doubts,
    )


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
        retriever: Anything that can search.
        progress: Told how far the reading of documents has come.

    Raises:
        SettingsError: A setting cannot be used, or not exactly one source of passages was given.
        CalibrationError: There is no calibration for the model, verifier form, prompts and retriever.
        CorpusError: The documents or the index cannot be used.
        ModelError: The model cannot be used.
    """
    given = [source for source in (docs, passages, index, retriever) if source is not None]
    if len(given) != 1:
        raise SettingsError(
            f"Needs one source of passages, and {len(given) or 'none'} were given.",
            remedy="Name documents, or an index made with 'beliefrag index'.",
        )
    verifier = build_verifier(settings.verifier or default_verifier(settings.model))
    prompts = Prompts.load(settings.prompts)
    model = open_model(settings)
    here = Circumstances(model.identity, verifier.name, prompts.hashes(), _identity(retriever))
    artifact = artifact_for(here, calibration=settings.calibration, borrow=settings.borrow)
    found_doubts = doubts(artifact, here)
    # Asked for again at the end; a guarantee that is not there is told before the documents are read.
    guarantee_in_force(settings, artifact, prompts=prompts.hashes(), doubts=found_doubts)
    report: IndexReport | None = None
    found: Retriever
    if retriever is not None:
        found = retriever
    elif passages is not None:
        found = Bm25Index.in_memory(passages)
    elif index is not None:
        found = Bm25Index.open(index)
    else:
        paths = [docs] if isinstance(docs, str | Path) else list(docs or ())
        found, report = docs_index(paths, cache_dir(), progress=progress)
    scale = score_scale(found) if isinstance(found, Bm25Index) else _stated_scale(found, artifact)
    made_with = {"calibration": "; ".join([artifact.name, *found_doubts])}
    if isinstance(found, Bm25Index):
        made_with["corpus"] = found.fingerprint
    plain = Assembly(
        model=model,
        harness=Harness(model, found, prompts, verifier, settings.budget, made_with),
        method=BeliefRAGMethod(artifact.calibration(scale), settings.thresholds),
        artifact=artifact,
        doubts=found_doubts,
        report=report,
    )
    return under_policy(plain, settings)


def under_policy(assembly: Assembly, settings: Settings) -> Assembly:
    """The same model and documents under another budget, other thresholds or another guarantee.

    Whoever answers many questions opens everything once and lets single questions differ in what they may spend and in
    when to answer.

    Args:
        assembly: What was opened.
        settings: With the policy; whatever else they say is passed over.

    Raises:
        CalibrationError: There is no such guarantee for this policy.
    """
    harness = assembly.harness
    guarantee = guarantee_in_force(
        settings, assembly.artifact, prompts=harness.prompts.hashes(), doubts=assembly.doubts
    )
    made_with = {name: value for name, value in harness.made_with.items() if name != "guarantee"}
    promise = guarantee.words(made_with.get("corpus")) if guarantee else ""
    if promise:
        made_with["guarantee"] = promise
    return replace(
        assembly,
        harness=replace(harness, budget=settings.budget, made_with=made_with),
        method=BeliefRAGMethod(
            assembly.method.calibration,
            under_guarantee(settings.thresholds, guarantee),
            promise=str(guarantee) if guarantee else "",
        ),
        guarantee=guarantee,
        promise=promise,
    )


def _stated_scale(retriever: Retriever, artifact: Artifact) -> ScoreScale:
    """Where a foreign retriever's scores lie: what it says itself knows more than an artifact."""
    stated = getattr(retriever, "score_scale", None)
    return stated if isinstance(stated, ScoreScale) else artifact.score_scale or _UNKNOWN_SCALE


def _identity(retriever: Retriever | None) -> str | None:
    """What a retriever says that it is. Documents, passages and indexes are searched by the engine here."""
    if retriever is None:
        return Bm25Index.identity
    identity = getattr(retriever, "identity", None)
    return identity if isinstance(identity, str) else None
