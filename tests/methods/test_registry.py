import pytest

from beliefrag.calibration import load_artifact
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.method import ScoreScale, Thresholds
from beliefrag.methods import CALIBRATED, METHODS, NEED_LOGPROBS, TITLES, BeliefRAGMethod, method_named

CALIBRATION = load_artifact("published").calibration(ScoreScale(20.0, 8.0))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_to_its_name_and_begins_afresh(name: str) -> None:
    method = method_named(name, CALIBRATION)
    assert method.name == name
    one, other = method.begin(), method.begin()
    assert one is method or one is not other


def test_every_method_has_a_title_of_its_own() -> None:
    assert list(TITLES) == list(METHODS)
    assert len(set(TITLES.values())) == len(TITLES)
    assert set(METHODS) >= CALIBRATED | NEED_LOGPROBS


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SettingsError) as caught:
        method_named("self-rag")
    assert all(name in caught.value.remedy for name in METHODS)


def test_beliefrag_is_refused_without_a_calibration_and_takes_thresholds() -> None:
    with pytest.raises(CalibrationError, match="beliefrag"):
        method_named("beliefrag")
    method = method_named("beliefrag", CALIBRATION, Thresholds(answer=0.9))
    assert isinstance(method, BeliefRAGMethod)
    assert method.thresholds.answer == 0.9
