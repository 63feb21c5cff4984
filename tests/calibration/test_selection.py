import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beliefrag.calibration import Artifact, RunConditions, find_calibration_warnings, load_artifact, select_artifact
from beliefrag.errors import CalibrationError
from beliefrag.policy import ScheduledValue, ScoreScale
from beliefrag.retrieval import Bm25Index
from beliefrag.types import Diagnostics
from tests.support.messages import mentions

ANOTHER = "openai:another-model@http://localhost/v1"


def conditions(model: str, **other: Any) -> RunConditions:
    """Return a run with what the published artifact's verifier form is, and our retriever."""
    return replace(RunConditions(model, "structured", {}, Bm25Index.identity), **other)


def of_the_embedded(artifact: Artifact, **other: Any) -> RunConditions:
    """Return a run as the embedded model's artifact was fitted for."""
    own = RunConditions(artifact.backbone, artifact.verifier, artifact.prompts, artifact.retriever)
    return replace(own, **other)


@pytest.mark.parametrize(
    "identity",
    [
        "openai:gpt-oss-120b@http://localhost:8000/v1",
        "openai:openai/gpt-oss-120b@https://example.org/v1",
        "openai:gpt-oss:120b@http://10.0.0.1/v1",
    ],
)
def test_a_model_finds_its_own_artifact_wherever_it_is_served(identity: str) -> None:
    assert select_artifact(conditions(identity)).name == "published"


@pytest.mark.parametrize(
    ("model", "verifier", "name"),
    [
        (ANOTHER, "stated", "any-model"),
        (ANOTHER, "draft", "any-model"),
        ("openai:gpt-oss-120b@http://localhost/v1", "stated", "any-model"),
        ("local:qwen2.5-coder-1.5b:cc324af070c2ecbf", "stated", "any-model"),
        ("local:qwen2.5-coder-1.5b:cc324af070c2ecbf", "draft", "qwen2.5-coder-1.5b-lean"),
        (ANOTHER, "structured", "published"),
    ],
)
def test_a_model_without_a_fit_of_its_own_gets_an_estimate_for_its_verifier_form(
    model: str, verifier: str, name: str
) -> None:
    assert select_artifact(conditions(model, verifier=verifier)).name == name


def test_an_estimate_is_never_a_calibration() -> None:
    estimate = load_artifact("any-model")
    assert find_calibration_warnings(estimate, of_the_embedded(estimate)), "not even for what it was fitted with"


def test_another_models_artifact_is_taken_only_when_it_is_borrowed() -> None:
    with pytest.raises(CalibrationError, match=r"fitted for openai:gpt-oss-120b.*--borrow published"):
        select_artifact(conditions(ANOTHER), calibration="published")
    assert select_artifact(conditions(ANOTHER), borrow="published").name == "published"


def test_without_a_fitted_value_the_schedule_stands_in() -> None:
    assert load_artifact("published").calibration(ScoreScale(1.0, 1.0)).retrieval_value == ScheduledValue()


def write_changed(folder: Path, change: dict[str, Any]) -> str:
    """Return a file with the published artifact, but for what is changed."""
    file = folder / "bad.json"
    file.write_text(json.dumps(json.loads(load_artifact("published").model_dump_json()) | change), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("fit", "expected"),
    [
        ({"kind": "platt", "intercept": 0.0, "slope": 2.0}, 0.1),
        ({"kind": "isotonic", "scores": [0.0, 0.5], "probabilities": [0.2, 0.4]}, 0.3),
    ],
)
def test_each_kind_comes_back_from_a_file(tmp_path: Path, fit: dict[str, Any], expected: float) -> None:
    artifact = load_artifact(write_changed(tmp_path, {"answerability": fit}))
    assert artifact.answerability.kind == fit["kind"]
    x = Diagnostics(0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5)
    assert artifact.answerability.probability(x, 0.25) == pytest.approx(expected)
    assert artifact.sha256 != load_artifact("published").sha256


def isotonic(scores: list[float], probabilities: list[float]) -> dict[str, Any]:
    return {"answerability": {"kind": "isotonic", "scores": scores, "probabilities": probabilities}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format"),
        ({"answerability": None}, "answerability"),
        ({"surprise": 1}, "surprise"),
        ({"answerability": {"kind": "tea leaves"}}, "answerability"),
        ({"answerability": {"kind": "platt", "intercept": 0.0}}, "slope"),
        (isotonic([], []), "at least one"),
        (isotonic([0.5, 0.5], [0.1, 0.2]), "must rise"),
        (isotonic([0.1, 0.5], [0.3, 0.2]), "must rise"),
        (isotonic([0.1, 0.5], [0.3, 1.2]), "between 0 and 1"),
    ],
)
def test_a_file_that_is_no_artifact_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(CalibrationError, match=rf"bad\.json .*{words}.*beliefrag calibrate fit"):
        load_artifact(write_changed(tmp_path, change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verifier": "graded"}, "slots verifier, not graded"),
        ({"prompts": {"answer": "other"}}, r"other prompts \(answer\)"),
        ({"retriever": "my engine"}, "retriever bm25 .*my engine"),
    ],
)
def test_other_words_another_verifier_or_retriever_are_refused_with_the_way_around(
    change: dict[str, object], words: str
) -> None:
    artifact = load_artifact("qwen2.5-coder-1.5b")
    here = of_the_embedded(artifact, **change)
    with pytest.raises(CalibrationError, match=rf"{words}.*--borrow {artifact.name}"):
        select_artifact(here, calibration=artifact.name)
    assert select_artifact(here, borrow=artifact.name) == artifact
    assert len(find_calibration_warnings(artifact, here)) == 1


def test_a_retriever_that_does_not_say_what_it_is_may_be_used_with_a_doubt() -> None:
    artifact = load_artifact("qwen2.5-coder-1.5b")
    here = of_the_embedded(artifact, retriever=None)
    assert select_artifact(here) == artifact
    (warning,) = find_calibration_warnings(artifact, here)
    assert mentions(warning, "bm25 k1=1.2 b=0.75 en_stem", "retriever does not say")


def test_an_artifact_says_that_it_is_borrowed() -> None:
    artifact = load_artifact("qwen2.5-coder-1.5b")
    assert find_calibration_warnings(artifact, of_the_embedded(artifact)) == ()
    (warning,) = find_calibration_warnings(artifact, of_the_embedded(artifact, model=ANOTHER))
    assert mentions(warning, "borrowed", artifact.backbone)


def test_the_published_artifact_never_passes_for_one_of_ours() -> None:
    published = load_artifact("published")
    (warning,) = find_calibration_warnings(published, conditions("openai:gpt-oss-120b@http://localhost/v1"))
    assert mentions(warning, "borrowed", "paper's own", "prompts")


def test_the_embedded_model_has_a_fit_of_its_own_for_the_words_it_is_asked_in() -> None:
    from beliefrag.models.weights import DEFAULT, find
    from beliefrag.prompts import Prompts
    from beliefrag.verifiers import build_verifier

    weights = find(DEFAULT)
    hashes = Prompts.load().hashes()
    here = RunConditions(f"local:{weights.name}:{weights.sha256[:16]}", "slots", hashes, Bm25Index.identity)
    artifact = select_artifact(here)
    assert artifact.origin == "fitted"
    assert find_calibration_warnings(artifact, here) == ()
    assert set(artifact.prompts) == {"system", *build_verifier("slots").prompts}
    # A changed prompt changes what the numbers mean: fit again (docs/results) before shipping it.
    assert dict(artifact.prompts) == {name: hashes[name] for name in artifact.prompts}
    assert artifact.quality["brier"] < artifact.quality["brier_base_rate"]
    assert artifact.quality["auc"] > 0.6
    assert artifact.retrieval_value is not None and not artifact.contaminated
