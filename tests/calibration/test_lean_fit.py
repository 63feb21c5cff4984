"""What is fitted for lean: guarantees from its own episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.bench.setup import collection_spec
from beliefrag.calibration import RunConditions, find_calibration_warnings, load_artifact, select_artifact
from beliefrag.calibration.artifact import write_artifact
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.risk import read_risk_sample
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.policy import ScoreScale
from beliefrag.runs.partitions import Partition
from beliefrag.types import Action
from tests.support.planted_states import change, planted


def test_an_episode_of_lean_is_a_point_with_its_own_probability(tmp_path: Path) -> None:
    collection = planted(tmp_path, questions=60)
    own = [
        replace(
            each,
            method="lean",
            states=(*each.states[:-1], change(each.states[-1], answerability=0.7, action=Action.ANSWER)),
        )
        for each in collection.trajectories
    ]
    fit = load_artifact("published").calibration(ScoreScale(20.0, 8.0))
    found = read_risk_sample(collection.runs[0], own, fit, label="f1")
    assert set(found.probability.tolist()) == {0.7}
    held = [each for each in own if each.partition is Partition.XHOLD]
    assert found.correct.tolist() == [bool(each.states[-1].correct("f1")) for each in held]


def test_a_calibration_of_drafts_is_taken_for_another_retriever_with_a_warning(tmp_path: Path) -> None:
    artifact = fit_artifact(planted(tmp_path, questions=60), "f1")
    file = tmp_path / "mine.json"
    write_artifact(artifact, file)
    here = RunConditions(artifact.backbone, artifact.verifier, artifact.prompts, "another engine")
    with pytest.raises(CalibrationError, match="another engine"):
        select_artifact(here, calibration=str(file))
    taken = select_artifact(here, calibration=str(file), any_retriever=True)
    assert taken == artifact
    assert any("another engine" in warning for warning in find_calibration_warnings(taken, here))
    other_form = replace(here, verifier="graded")
    with pytest.raises(CalibrationError, match="graded"):
        select_artifact(other_form, calibration=str(file), any_retriever=True)


def test_states_are_collected_for_the_method_that_is_named() -> None:
    from beliefrag.bench import RunSpec

    assert collection_spec(RunSpec(), method="lean").methods == ("lean_survey",)
    assert collection_spec(RunSpec(), method="lean", searches=False).methods == ("lean_reads",)
    assert collection_spec(RunSpec()).methods == ("survey",)
    with pytest.raises(SettingsError, match="static"):
        collection_spec(RunSpec(), method="static")
