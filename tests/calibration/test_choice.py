import json
from pathlib import Path

import pytest

from beliefrag.calibration import artifact_for, load_artifact, shipped_artifacts
from beliefrag.errors import CalibrationError
from beliefrag.method import ScheduledValue, ScoreScale


def test_the_published_fit_ships_and_is_marked_as_published() -> None:
    published = shipped_artifacts()["published"]
    assert published.origin == "published"
    assert published.answerability.intercept == 0.65330
    assert published.answerability.weights.vector() == (0.08474, 0.53301, 0.0, -0.47780, -0.54360, 0.06258, -0.00441)
    assert published.contaminated is False


@pytest.mark.parametrize(
    "identity",
    [
        "openai:gpt-oss-120b@http://localhost:8000/v1",
        "openai:openai/gpt-oss-120b@https://example.org/v1",
        "openai:gpt-oss:120b@http://10.0.0.1/v1",
    ],
)
def test_a_model_finds_its_own_artifact_wherever_it_is_served(identity: str) -> None:
    assert artifact_for(identity).name == "published"


def test_a_model_without_an_artifact_stops_with_the_way_around() -> None:
    with pytest.raises(CalibrationError, match="--borrow published"):
        artifact_for("openai:another-model@http://localhost/v1")


def test_naming_another_models_artifact_is_refused_with_the_way_around() -> None:
    with pytest.raises(CalibrationError, match=r"fitted for openai:gpt-oss-120b.*--borrow published"):
        artifact_for("openai:another@http://localhost/v1", calibration="published")


def test_borrowing_is_possible_when_it_is_said() -> None:
    assert artifact_for("openai:another@http://localhost/v1", borrow="published").name == "published"


def test_without_a_fitted_value_the_schedule_stands_in() -> None:
    assert load_artifact("published").calibration(ScoreScale(1.0, 1.0)).retrieval_value == ScheduledValue()


def test_an_artifact_survives_the_way_through_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    original = load_artifact("published")
    file.write_text(original.model_dump_json(), encoding="utf-8")
    assert load_artifact(str(file)) == original


@pytest.mark.parametrize(
    ("change", "words"),
    [({"format": 2}, "format"), ({"answerability": None}, "answerability"), ({"surprise": 1}, "surprise")],
)
def test_a_file_that_is_no_artifact_is_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(json.loads(load_artifact("published").model_dump_json()) | change), encoding="utf-8")
    with pytest.raises(CalibrationError, match=words):
        load_artifact(str(file))


def test_an_artifact_says_why_it_may_be_off() -> None:
    artifact = load_artifact("qwen2.5-coder-1.5b")
    same = dict(artifact.prompts)
    assert artifact.doubts(borrowed=False, verifier="probability", prompts=same) == ()
    assert artifact.doubts(borrowed=True, verifier="graded", prompts=same | {"answer": "other"}) == (
        f"borrowed, fitted for {artifact.backbone}",
        "fitted with the probability verifier, not graded",
        "fitted with other prompts (answer)",
    )


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(CalibrationError, match="published"):
        load_artifact("nonsense")


def test_the_embedded_model_has_a_fit_of_its_own_for_the_words_it_is_asked_in() -> None:
    from beliefrag.models.weights import DEFAULT, find
    from beliefrag.prompts import Prompts
    from beliefrag.verifiers import verifier_form

    weights = find(DEFAULT)
    artifact = artifact_for(f"local:{weights.name}:{weights.sha256[:16]}")
    assert artifact.origin == "fitted"
    assert artifact.verifier == "probability"
    hashes = Prompts.load().hashes()
    assert set(artifact.prompts) == {"system", *verifier_form("probability").prompts}
    # A changed prompt changes what the numbers mean: fit again (docs/results) before shipping it.
    assert dict(artifact.prompts) == {name: hashes[name] for name in artifact.prompts}
    assert artifact.quality["brier_left_one_out"] < artifact.quality["brier_base_rate"]
