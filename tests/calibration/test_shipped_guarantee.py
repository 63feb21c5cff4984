"""The guarantee that ships with the embedded model."""

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.engine.assembly import guarantee_from_settings
from beliefrag.errors import CalibrationError
from beliefrag.prompts import Prompts
from beliefrag.settings import load_settings

SHIPPED = load_artifact("qwen2.5-coder-1.5b-lean")
PROMPTS = Prompts.load().hashes()


@pytest.mark.parametrize("max_error", [0.3, 0.4])
def test_it_can_be_asked_for_with_the_settings_of_a_new_user(max_error: float) -> None:
    settings = load_settings({"max_error": max_error}).settings
    found = guarantee_from_settings(settings, SHIPPED, prompts=PROMPTS, calibration_warnings=[])
    assert found is not None and found.threshold is not None
    assert found.questions >= 100 and found.answered >= 20, "chosen on enough questions to be useful"
    assert found.wrong / found.answered < max_error


def test_a_level_that_was_not_shown_is_refused_with_those_that_were() -> None:
    settings = load_settings({"max_error": 0.1}).settings
    with pytest.raises(CalibrationError, match=r"10 %.*30 %.*calibrate risk"):
        guarantee_from_settings(settings, SHIPPED, prompts=PROMPTS, calibration_warnings=[])


def test_it_does_not_hold_for_another_way_of_answering() -> None:
    settings = load_settings({"max_error": 0.3, "method": "lean:compare=false"}).settings
    with pytest.raises(CalibrationError, match=r"compare=False.*--max-error"):
        guarantee_from_settings(settings, SHIPPED, prompts=PROMPTS, calibration_warnings=[])
