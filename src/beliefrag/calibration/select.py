"""Finds the artifact for a run. One that was fitted for something else is used only when somebody says so (SPEC 4)."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from beliefrag.calibration.artifact import Artifact
from beliefrag.calibration.match import RunConditions, find_mismatches, is_fitted_for
from beliefrag.errors import CalibrationError

__all__ = ["load_artifact", "select_artifact", "shipped_artifacts"]


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
        where = f"{'.'.join(str(part) for part in first['loc']) or 'the file'}: "
        if first["type"] == "contaminated":
            where = ""
        raise CalibrationError(f"{name_or_path} is not a calibration: {where}{first['msg']}.") from error


def select_artifact(here: RunConditions, *, calibration: str | None = None, borrow: str | None = None) -> Artifact:
    """The artifact to use in a run.

    Args:
        here: What the run asks and searches with.
        calibration: An artifact to use; it must have been fitted for all that. None looks among the shipped ones.
        borrow: An artifact to use although it was fitted for something else.

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
        artifact = next((each for each in own if not find_mismatches(each, here)), own[0])
        named = artifact.name
    if reasons := find_mismatches(artifact, here):
        raise CalibrationError(
            f"The calibration {artifact.name} is not for this run: it was {'; it was '.join(reasons)}.",
            remedy=f"Use --borrow {named} to take it all the same, knowing that its probabilities may be off, or fit "
            "one with 'beliefrag calibrate fit'.",
        )
    return artifact
