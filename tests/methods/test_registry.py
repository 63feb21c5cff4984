from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.methods import METHODS, MethodInputs, build_method
from beliefrag.methods.adaptive_k import AdaptiveK
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.methods.iterative import Iterative
from beliefrag.policy import ScoreScale, Thresholds
from tests.support.episodes import PlannedRetriever, hits, play, script, verdict
from tests.support.reading import actions, calls, says

INPUTS = MethodInputs(load_artifact("published").calibration(ScoreScale(20.0, 8.0)))


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
        says("grader", {"grades": [0.4, 0.4]}, repeat=True),
        says("reasoner", "It was built by Ada.", repeat=True),
        says("draft", "Ada", logprobs={"Ada": 0.3}, repeat=True),
        says("dialogue", "<search>Ada</search>", repeat=True),
        says("read", "Ada", logprobs={"Ada": 0.3}, repeat=True),
    )
    method = build_method(name, INPUTS)
    first, second = [
        await play(model, PlannedRetriever(hits("a", "b"), hits("c"), hits("d")), method=method) for _ in range(2)
    ]
    assert first.outcome != "failed"
    assert actions(first) == actions(second)
    assert calls(first) == calls(second)
    assert first.sources == second.sources


def test_options_are_typed_after_the_name() -> None:
    assert build_method("iterative:rounds=2") == Iterative(rounds=2)
    assert build_method("adaptive_k:buffer=3") == AdaptiveK(buffer=3)
    with pytest.raises(SettingsError, match=r"rounds=0.*at least 1"):
        build_method("iterative:rounds=0")
    with pytest.raises(SettingsError, match=r"incorrect .* correct"):
        build_method("crag:correct=0.2,incorrect=0.6")
    with pytest.raises(SettingsError, match="threshold"):
        build_method("self_rag:threshold=1.5")


def test_beliefrag_is_refused_without_a_calibration_and_takes_thresholds() -> None:
    with pytest.raises(CalibrationError, match="beliefrag"):
        build_method("beliefrag")
    method = build_method("beliefrag", replace(INPUTS, thresholds=Thresholds(answer=0.9)))
    assert isinstance(method, BeliefRAGMethod)
    assert method.thresholds.answer == 0.9
