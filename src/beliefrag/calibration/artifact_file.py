"""Writes an artifact to its file."""

from __future__ import annotations

from pathlib import Path

from beliefrag.calibration import Artifact
from beliefrag.errors import CalibrationError

__all__ = ["write_artifact"]


def write_artifact(artifact: Artifact, path: Path) -> None:
    """Writes it aside first: a kill leaves the old file or the new one, never half of one.

    Raises:
        CalibrationError: The file cannot be written.
    """
    aside = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(artifact.model_dump_json(indent=2) + "\n", encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise CalibrationError(
            f"{path} cannot be written: {error.strerror}.", remedy="Name another file with --out."
        ) from error
