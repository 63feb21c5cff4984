"""Selects the artifact and the guarantee for a run.

An artifact holds only for the model, verifier form, prompts and retriever that it was fitted with. For
anything else it is used only if somebody asks for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from beliefrag.calibration.artifact import Artifact, Guarantee, describe_target
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.policy import Thresholds
from beliefrag.types import Budget

if TYPE_CHECKING:
    from beliefrag.runs.record import RunRecord

__all__ = [
    "RunConditions",
    "apply_guarantee",
    "backbone",
    "conditions_of_run",
    "count_guarantees_in_file",
    "find_calibration_warnings",
    "find_mismatches",
    "is_fitted_for",
    "load_artifact",
    "require_own_file",
    "select_artifact",
    "select_guarantee",
    "shipped_artifacts",
]


@dataclass(frozen=True, slots=True)
class RunConditions:
    """What a run asks and searches with."""

    model: str
    """The model's identity."""
    verifier: str
    """The name of the verifier form."""
    prompts: Mapping[str, str]
    """Hash of each prompt, as far as it is known."""
    retriever: str | None
    """The retriever's identity; None for one that does not say what it is."""


def conditions_of_run(run: RunRecord) -> RunConditions:
    """Return what the episodes of a recorded run asked and searched with."""
    return RunConditions(run.model, run.verifier, run.prompts, run.searched_with)


def is_fitted_for(artifact: Artifact, model: str) -> bool:
    """Return whether it was fitted for that model, wherever the model is served."""
    return backbone(artifact.backbone) == backbone(model)


def find_mismatches(artifact: Artifact, here: RunConditions) -> tuple[str, ...]:
    """Return why the artifact is not for this run; gives an empty list where it is."""
    found = []
    if not is_fitted_for(artifact, here.model):
        found.append(f"fitted for {artifact.backbone}, not {here.model}")
    return (*found, *_other_ways(artifact, here))


def find_calibration_warnings(artifact: Artifact, here: RunConditions) -> tuple[str, ...]:
    """Return why its probabilities may be off in this run: mismatches that somebody accepted, and what is not known."""
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
    """Return the model without its address: the same model on another server is the same backbone."""
    provider, _, rest = identity.partition(":")
    if provider != "openai":
        return identity
    # Servers spell one model differently: openai/gpt-oss-120b, gpt-oss:120b, gpt-oss-120b.
    return f"openai:{rest.partition('@')[0].rpartition('/')[2].replace(':', '-').lower()}"


def shipped_artifacts() -> dict[str, Artifact]:
    """Return the artifacts that come with the package, by name."""
    folder = resources.files(__package__) / "artifacts"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    found = [Artifact.model_validate_json(file.read_text(encoding="utf-8")) for file in files]
    return {artifact.name: artifact for artifact in found}


def load_artifact(name_or_path: str) -> Artifact:
    """Load a shipped artifact by its name, or any artifact from its file.

    Raises:
        CalibrationError: There is none, or the file is not one.
    """
    shipped = shipped_artifacts()
    if name_or_path in shipped:
        return shipped[name_or_path]
    path = Path(name_or_path).expanduser()
    try:
        return Artifact.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CalibrationError(
            f"There is no calibration called {name_or_path!r}.",
            remedy=f"Give a file, or one of {', '.join(shipped)}.",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(
            f"Cannot read the calibration {name_or_path}: {error}.",
            remedy="Name a file that 'beliefrag calibrate fit' wrote, and that you may read.",
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{'.'.join(str(part) for part in first['loc']) or 'the file'}: "
        remedy = "Name a file that 'beliefrag calibrate fit' wrote."
        if first["type"] == "contaminated":
            where, remedy = "", "Set contaminated to true, or fit it again without --everything."
        raise CalibrationError(f"{name_or_path} is not a calibration: {where}{first['msg']}.", remedy=remedy) from error


def count_guarantees_in_file(path: Path) -> int:
    """Count the guarantees of the calibration in a file that is about to be replaced; 0 where there is no file.

    Raises:
        SettingsError: The file is not a calibration, so it must not be replaced.
    """
    if not path.is_file():
        return 0
    try:
        return len(load_artifact(str(path.absolute())).guarantees)
    except CalibrationError:
        raise SettingsError(
            f"{path} is there already, and is no calibration.", remedy="Name another file with --out."
        ) from None


def require_own_file(path: Path, artifact: str) -> None:
    """Refuse a file that is there already, unless it is the one of this calibration.

    Raises:
        SettingsError: The file belongs to something else.
    """
    own = Path(artifact).expanduser()
    is_own = artifact not in shipped_artifacts() and own.exists() and path.exists() and path.samefile(own)
    if path.exists() and not is_own:
        raise SettingsError(f"{path} is there already.", remedy="Name another file with --out.")


def select_artifact(
    here: RunConditions,
    *,
    calibration: str | None = None,
    borrow: str | None = None,
    any_retriever: bool = False,
) -> Artifact:
    """Select the artifact to use in a run.

    Args:
        here: What the run asks and searches with.
        calibration: An artifact to use; it must have been fitted for all that. None looks among the shipped ones.
        borrow: An artifact to use although it was fitted for something else.
        any_retriever: Take one that was fitted with another retriever too, where there is no better one: its
            probabilities come from the answer and its tokens. `find_calibration_warnings` says so.

    Raises:
        CalibrationError: None was fitted for this.
    """
    if borrow is not None:
        return load_artifact(borrow)
    if calibration is not None:
        artifact, named = load_artifact(calibration), calibration
    else:
        own = [artifact for artifact in shipped_artifacts().values() if is_fitted_for(artifact, here.model)]
        if not own:
            raise CalibrationError(
                f"No calibration was fitted for {here.model}, so its probabilities would mean nothing.",
                remedy="Use --borrow published to take the paper's, fitted for gpt-oss-120b, knowing that it may be "
                "off, or fit one with 'beliefrag calibrate fit'.",
            )
        artifact = min(own, key=lambda each: len(find_mismatches(each, here)))
        named = artifact.name
    tolerated = replace(here, retriever=None) if any_retriever else here
    if reasons := find_mismatches(artifact, tolerated):
        raise CalibrationError(
            f"The calibration {artifact.name} is not for this run: it was {'; it was '.join(reasons)}.",
            remedy=f"Use --borrow {named} to take it all the same, knowing that its probabilities may be off, or fit "
            "one with 'beliefrag calibrate fit'.",
        )
    return artifact


def select_guarantee(
    artifact: Artifact,
    *,
    max_error: float,
    confidence: float,
    thresholds: Thresholds,
    budget: Budget,
    prompts: Mapping[str, str],
    calibration_warnings: Sequence[str],
) -> Guarantee:
    """Select the artifact's guarantee for that target, if it holds for this policy.

    Args:
        artifact: The calibration in use.
        max_error: The largest share of wrong answers among those given.
        confidence: The probability with which this limit must hold.
        thresholds: The thresholds of the policy in use.
        budget: What an episode may spend.
        prompts: Hash of each prompt in use.
        calibration_warnings: Why the artifact's probabilities may be off here.

    Raises:
        CalibrationError: There is no such guarantee, no threshold met the target, or it holds for something else.
        SettingsError: A setting contradicts it.
    """
    target = describe_target(max_error, confidence)
    command = f"beliefrag calibrate risk FILE RUN --max-error {max_error:g} --confidence {confidence:g}"
    if thresholds.decline_below:
        raise SettingsError(
            f"max_error {max_error:g} sets thresholds.decline_below, and "
            f"{thresholds.decline_below:g} is set there already.",
            remedy="Set one of them.",
        )
    if not thresholds.abstain:
        raise SettingsError(
            f"Never abstaining leaves no way to keep to max_error {max_error:g}.", remedy="Set one or the other."
        )
    if calibration_warnings:
        raise CalibrationError(
            f"The calibration {artifact.name} carries no guarantee here: {'; '.join(calibration_warnings)}.",
            remedy="Ask without --max-error, or with a calibration that was fitted for just this.",
        )
    found = next((each for each in artifact.guarantees if each.has_target(max_error, confidence)), None)
    if found is None:
        others = ", ".join(describe_target(each.max_error, each.confidence) for each in artifact.guarantees)
        raise CalibrationError(
            f"The calibration {artifact.name} has no guarantee of {target}; it has {others or 'none at all'}.",
            remedy=f"{_describe_need(max_error, confidence)} Make it: {command}",
        )
    if found.threshold is None:
        raise CalibrationError(
            f"No threshold met {target} on the {found.questions:,} questions of {' and '.join(found.datasets)}.",
            remedy=f"{_describe_need(max_error, confidence)} Allow more errors, or choose again on more questions: "
            f"{command}",
        )
    if changed := "; ".join(found.differences(thresholds, budget, prompts)):
        raise CalibrationError(
            f"The guarantee of {target} was made for another policy: {changed}.",
            remedy=f"Use those settings, or make it again for these: {command}",
        )
    return found


def _describe_need(max_error: float, confidence: float) -> str:
    # Only a refusal needs the statistics: a question should not wait for their import.
    from beliefrag.calibration.risk import answers_needed  # noqa: PLC0415

    least = answers_needed(max_error, confidence)
    return f"It takes at least {least:,} held-out answers that are all right, and more where some are wrong."


def apply_guarantee(thresholds: Thresholds, guarantee: Guarantee | None) -> Thresholds:
    """Return the thresholds with the guarantee's own among them; unchanged without one."""
    return replace(thresholds, decline_below=guarantee.threshold) if guarantee else thresholds
