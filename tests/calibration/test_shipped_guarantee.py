"""The guarantee that ships with the embedded model."""

import pytest

from beliefrag.calibration import Guarantee, load_artifact
from beliefrag.engine.assembly import guarantee_from_settings
from beliefrag.errors import CalibrationError
from beliefrag.profiles import PROFILES
from beliefrag.prompts import Prompts
from beliefrag.settings import Settings, load_settings

SHIPPED = load_artifact("qwen2.5-coder-1.5b-lean")
PROMPTS = Prompts.load().hashes()


def ask_for(settings: Settings) -> Guarantee | None:
    thresholds = PROFILES["default"].apply_to(settings.policy_thresholds)
    return guarantee_from_settings(settings, SHIPPED, thresholds=thresholds, prompts=PROMPTS, calibration_warnings=[])


@pytest.mark.parametrize("max_error", [0.3, 0.4])
def test_it_can_be_asked_for_with_the_settings_of_a_new_user(max_error: float) -> None:
    settings = load_settings({"max_error": max_error}).settings
    found = ask_for(settings)
    assert found is not None and found.threshold is not None
    assert found.questions >= 100 and found.answered >= 20, "chosen on enough questions to be useful"
    assert found.wrong / found.answered < max_error


def test_a_level_that_was_not_shown_is_refused_with_those_that_were() -> None:
    settings = load_settings({"max_error": 0.1}).settings
    with pytest.raises(CalibrationError, match=r"10 %.*30 %.*calibrate risk"):
        ask_for(settings)


def test_it_does_not_hold_for_another_way_of_answering() -> None:
    settings = load_settings({"max_error": 0.4, "thresholds": {"answer": 0.7}}).settings
    with pytest.raises(CalibrationError, match=r"thresholds.answer 0.5, not 0.7"):
        ask_for(settings)
