"""Finds the artifact for a model. Another model's is used only when somebody says so (SPEC 4)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from beliefrag.calibration.artifact import Artifact
from beliefrag.errors import CalibrationError

__all__ = ["artifact_for", "load_artifact", "shipped_artifacts"]


def shipped_artifacts() -> dict[str, Artifact]:
    """The artifacts that come with the package, by name."""
    folder = resources.files(__package__) / "artifacts"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    found = [Artifact.model_validate_json(file.read_text(encoding="utf-8")) for file in files]
    return {artifact.name: artifact for artifact in found}


def load_artifact(name_or_path: str) -> Artifact:
    """A shipped artifact by its name, or any by its file.

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
        raise CalibrationError(f"Cannot read the calibration {name_or_path}: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise CalibrationError(f"{name_or_path} is not a calibration: {where}: {first['msg']}.") from error


def artifact_for(identity: str, *, calibration: str | None = None, borrow: str | None = None) -> Artifact:
    """The artifact to use with a model.

    Args:
        identity: The model's.
        calibration: An artifact to use; it must have been fitted for this model. None looks among the shipped ones.
        borrow: An artifact to use although it was fitted for another model.

    Raises:
        CalibrationError: None was fitted for this model.
    """
    if borrow is not None:
        return load_artifact(borrow)
    if calibration is not None:
        artifact = load_artifact(calibration)
        if _fits(artifact, identity):
            return artifact
        raise CalibrationError(
            f"The calibration {artifact.name} was fitted for {artifact.backbone}, and this run uses {identity}.",
            remedy=f"Use --borrow {calibration} to take it all the same, knowing that its probabilities may be off.",
        )
    for artifact in shipped_artifacts().values():
        if _fits(artifact, identity):
            return artifact
    raise CalibrationError(
        f"No calibration was fitted for {identity}, so its probabilities would mean nothing.",
        remedy="Use --borrow published to take the paper's, fitted for gpt-oss-120b, knowing that it may be off.",
    )


def _fits(artifact: Artifact, identity: str) -> bool:
    return _backbone(artifact.backbone) == _backbone(identity)


def _backbone(identity: str) -> str:
    """The model without its address: the same model on another server is the same backbone."""
    provider, _, rest = identity.partition(":")
    if provider != "openai":
        return identity
    # Servers spell one model differently: openai/gpt-oss-120b, gpt-oss:120b, gpt-oss-120b.
    return f"openai:{rest.partition('@')[0].rpartition('/')[2].replace(':', '-').lower()}"
