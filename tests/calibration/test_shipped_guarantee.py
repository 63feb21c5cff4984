"""No guarantee ships with the embedded model: without more labels none holds."""

import pytest

from beliefrag.calibration import Artifact, Guarantee, load_artifact
from beliefrag.calibration.artifact import shipped_artifacts
from beliefrag.errors import CalibrationError
from beliefrag.opening import guarantee_from_settings
from beliefrag.prompts import Prompts
from beliefrag.settings import PROFILES, Settings, load_settings

SHIPPED = load_artifact("qwen2.5-coder-1.5b-lean")
PROMPTS = Prompts.load().hashes()


def ask_for(settings: Settings) -> Guarantee | None:
    thresholds = PROFILES["default"].apply_to(settings.thresholds)
    return guarantee_from_settings(settings, SHIPPED, thresholds=thresholds, prompts=PROMPTS, calibration_warnings=[])


@pytest.mark.parametrize("max_error", [0.1, 0.3, 0.4])
def test_a_level_that_was_not_shown_is_refused_with_the_command_that_makes_one(max_error: float) -> None:
    with pytest.raises(CalibrationError, match=r"calibrate risk"):
        ask_for(load_settings({"max_error": max_error}).settings)


def test_no_shipped_calibration_hides_that_it_saw_held_out_questions() -> None:
    for artifact in shipped_artifacts().values():
        assert Artifact.model_validate_json(artifact.model_dump_json()).name == artifact.name
