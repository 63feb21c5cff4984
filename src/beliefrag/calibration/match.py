"""Whether an artifact holds for a run (SPEC 4): for the model, verifier form, prompts and retriever of its fit only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from beliefrag.calibration.artifact import Artifact
from beliefrag.runs.record import RunRecord

__all__ = [
    "RunConditions",
    "backbone",
    "conditions_of_run",
    "find_calibration_warnings",
    "find_mismatches",
    "is_fitted_for",
]


@dataclass(frozen=True, slots=True)
class RunConditions:
    """What a run asks and searches with."""

    model: str
    """Its identity."""
    verifier: str
    """The name of the verifier form."""
    prompts: Mapping[str, str]
    """Hash of each prompt, as far as it is known."""
    retriever: str | None
    """Its identity; None for one that does not say what it is."""


def conditions_of_run(run: RunRecord) -> RunConditions:
    """What the episodes of a recorded run asked and searched with."""
    return RunConditions(run.model, run.verifier, run.prompts, run.searched_with)


def is_fitted_for(artifact: Artifact, model: str) -> bool:
    """Whether it was fitted for that model, wherever the model is served."""
    return backbone(artifact.backbone) == backbone(model)


def find_mismatches(artifact: Artifact, here: RunConditions) -> tuple[str, ...]:
    """Why the artifact is not for this run; nothing where it is."""
    found = []
    if not is_fitted_for(artifact, here.model):
        found.append(f"fitted for {artifact.backbone}, not {here.model}")
    return (*found, *_other_ways(artifact, here))


def find_calibration_warnings(artifact: Artifact, here: RunConditions) -> tuple[str, ...]:
    """Why its probabilities may be off in this run: mismatches that somebody took knowingly, and what is not known."""
    found = []
    if not is_fitted_for(artifact, here.model):
        found.append(f"borrowed, fitted for {artifact.backbone}")
    elif artifact.origin == "published":
        found.append("fitted with the paper's own prompts and retriever")
    if artifact.contaminated:
        found.append("its fit saw questions that were held out")
    found += _other_ways(artifact, here)
    if here.retriever is None and artifact.origin == "fitted":
        found.append(f"fitted with {artifact.retriever}, and this retriever does not say what it is")
    return tuple(found)


def _other_ways(artifact: Artifact, here: RunConditions) -> list[str]:
    found = []
    if artifact.verifier != here.verifier:
        found.append(f"fitted with the {artifact.verifier} verifier, not {here.verifier}")
    if changed := [name for name, digest in artifact.prompts.items() if here.prompts.get(name, digest) != digest]:
        found.append(f"fitted with other prompts ({', '.join(changed)})")
    # The paper names its retriever in words: there is no identity to compare.
    known = artifact.origin == "fitted" and here.retriever is not None
    if known and artifact.retriever != here.retriever:
        found.append(f"fitted with the retriever {artifact.retriever}, not {here.retriever}")
    return found


def backbone(identity: str) -> str:
    """The model without its address: the same model on another server is the same backbone."""
    provider, _, rest = identity.partition(":")
    if provider != "openai":
        return identity
    # Servers spell one model differently: openai/gpt-oss-120b, gpt-oss:120b, gpt-oss-120b.
    return f"openai:{rest.partition('@')[0].rpartition('/')[2].replace(':', '-').lower()}"
