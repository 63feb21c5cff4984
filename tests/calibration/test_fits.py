import json
from pathlib import Path
from typing import Any

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.errors import CalibrationError
from beliefrag.policy import ScoreScale
from beliefrag.types import Diagnostics

X = Diagnostics(0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5)


def written(folder: Path, answerability: dict[str, Any]) -> str:
    """A file with the published artifact's provenance and this answerability."""
    file = folder / "mine.json"
    record = json.loads(load_artifact("published").model_dump_json()) | {"answerability": answerability}
    file.write_text(json.dumps(record), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("answerability", "expected"),
    [
        ({"kind": "platt", "intercept": 0.0, "slope": 2.0}, 0.1),
        ({"kind": "isotonic", "scores": [0.0, 0.5], "probabilities": [0.2, 0.4]}, 0.3),
    ],
)
def test_each_kind_comes_back_from_a_file(tmp_path: Path, answerability: dict[str, Any], expected: float) -> None:
    artifact = load_artifact(written(tmp_path, answerability))
    assert artifact.answerability.kind == answerability["kind"]
    assert artifact.calibration(ScoreScale(1.0, 1.0)).answerability.probability(X, 0.25) == pytest.approx(expected)
    assert artifact.sha256 != load_artifact("published").sha256


@pytest.mark.parametrize(
    ("answerability", "words"),
    [
        ({"kind": "tea leaves"}, "answerability"),
        ({"kind": "platt", "intercept": 0.0}, "slope"),
        ({"kind": "isotonic", "scores": [], "probabilities": []}, "at least one"),
        ({"kind": "isotonic", "scores": [0.5, 0.5], "probabilities": [0.1, 0.2]}, "must rise"),
        ({"kind": "isotonic", "scores": [0.1, 0.5], "probabilities": [0.3, 0.2]}, "must rise"),
        ({"kind": "isotonic", "scores": [0.1, 0.5], "probabilities": [0.3, 1.2]}, "between 0 and 1"),
    ],
)
def test_numbers_that_are_no_fit_are_refused(tmp_path: Path, answerability: dict[str, Any], words: str) -> None:
    with pytest.raises(CalibrationError, match=words):
        load_artifact(written(tmp_path, answerability))
