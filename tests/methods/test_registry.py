from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.methods import (
    CALIBRATED,
    METHODS,
    NEED_LOGPROBS,
    TITLES,
    AdaptiveK,
    BeliefRAGMethod,
    Crag,
    Flare,
    UncertaintyGate,
    method_named,
)
from beliefrag.outcome import Failed
from beliefrag.policy import ScoreScale, Thresholds
from tests.support.episodes import PlannedRetriever, hits, play, script, verdict
from tests.support.reading import actions, calls, says

CALIBRATION = load_artifact("published").calibration(ScoreScale(20.0, 8.0))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_answers_to_its_name(name: str) -> None:
    assert method_named(name, CALIBRATION).name == name


@pytest.mark.parametrize("name", METHODS)
async def test_one_method_serves_many_questions_without_remembering_any(tmp_path: Path, name: str) -> None:
    model = script(
        tmp_path,
        verdict(0.4, 0.6, 0.5, unhelpful=[1]) | {"repeat": True},
        says("answer", "Paris", repeat=True),
        says("gate", "Rome", logprobs={"Rome": 0.2}, repeat=True),
        says("query_writer", "more", repeat=True),
        says("rewriter", "else", repeat=True),
        says("router", "C", repeat=True),
        says("trigger", "yes", repeat=True),
        says("reasoner", "It was built by Ada.", repeat=True),
        says("draft", "Ada", logprobs={"Ada": 0.3}, repeat=True),
        says("dialogue", "<search>Ada</search>", repeat=True),
    )
    method = method_named(name, CALIBRATION)
    first, second = [
        await play(model, PlannedRetriever(hits("a", "b"), hits("c"), hits("d")), method=method) for _ in range(2)
    ]
    assert not isinstance(first.outcome, Failed)
    assert actions(first) == actions(second)
    assert calls(first) == calls(second)
    assert first.record()["sources"] == second.record()["sources"]


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


def test_the_docs_tell_of_every_method_under_its_name_and_title() -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    for name, title in TITLES.items():
        assert f"| `{name}` | {title} |" in page
        assert name == "beliefrag" or f"**{title.replace('*', chr(92) + '*')}**" in page


def test_the_docs_name_the_defaults_that_are_in_force() -> None:
    page = (Path(__file__).parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
    assert f"fetches {AdaptiveK().cut.depth} candidates" in page
    assert f"at least {Crag().correct} is *correct*" in page
    assert f"{Crag().incorrect} is *incorrect*" in page
    assert f"probability below {Flare().confident}" in page
    assert f"words below {Flare().masked}" in page
    assert f"is at least {UncertaintyGate().sure}" in page
