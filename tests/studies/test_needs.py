"""The runs that studies need: shared by name, made in order, and an existing run stands in only where it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beliefrag.bench.perturbation import Injection
from beliefrag.methods.intervention import FrozenAnswerability
from beliefrag.settings import Settings
from beliefrag.studies import Kind, RequiredRun, StudyError, StudyOptions
from beliefrag.studies.catalogue import STUDIES, studies_named
from beliefrag.studies.required_runs import changed, refuse_idle, shared, stand_ins, unfit
from tests.support.studied import run_record

ROWS = Kind("datasets of rows", lambda dataset: False, lambda name: name == "rows")
RUN = run_record({"d": ["q0"]}, ("static", "beliefrag"))


def test_runs_of_one_name_are_made_once_with_the_methods_of_both() -> None:
    needs = shared(
        [RequiredRun("r", ("static", "beliefrag"), least=("beliefrag",)), RequiredRun("r", ("crag", "beliefrag"))]
    )
    assert [need.methods for need in needs] == [("static", "beliefrag", "crag")]
    assert needs[0].least == ("beliefrag", "crag")


def test_different_runs_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="different runs under the name 'r'"):
        shared([RequiredRun("r", ("static",)), RequiredRun("r", ("static",), changes={"thresholds.answer": 0.55})])


def test_a_run_comes_after_those_it_looks_at() -> None:
    needs = shared([RequiredRun("late", ("beliefrag",), after=("early",)), RequiredRun("early", ("beliefrag",))])
    assert [need.name for need in needs] == ["early", "late"]


@pytest.mark.parametrize("after", [("nowhere",), ("r",)])
def test_a_run_that_waits_for_nothing_that_comes_is_refused(after: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"nowhere|wait for each other"):
        shared([RequiredRun("r", ("beliefrag",), after=after)])


def test_all_studies_fit_together() -> None:
    for asked in (StudyOptions(), StudyOptions(drafts=False), StudyOptions(methods=("static", "beliefrag"))):
        names = [need.name for need in shared(need for study in STUDIES.values() for need in study.needs(asked))]
        assert len(set(names)) == len(names) > 0


def test_every_study_says_what_it_asks_and_how() -> None:
    for name, study in STUDIES.items():
        assert study.name == name
        assert study.question.endswith("?")
        assert all(sentence.endswith(".") for sentence in study.protocol)
        assert studies_named(name) == (study,)


def test_changes_are_made_to_the_settings_and_to_nothing_else() -> None:
    settings = Settings(concurrency=3)
    other = changed(settings, RequiredRun("r", (), changes={"thresholds.answer": 0.55, "budget.rounds": 2}))
    assert (other.thresholds.answer, other.budget.rounds, other.concurrency) == (0.55, 2, 3)
    assert replace(other.thresholds, answer=0.5) == settings.thresholds


def test_a_change_to_a_setting_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"thresholds\.anwser"):
        changed(Settings(), RequiredRun("r", (), changes={"thresholds.anwser": 0.55}))


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (RequiredRun("r", ("static", "beliefrag")), ""),
        (RequiredRun("r", ("crag", "beliefrag")), "it has no episodes of crag"),
        (RequiredRun("r", ("crag", "beliefrag"), least=("beliefrag",)), ""),
        (RequiredRun("r", ("static",), kind=ROWS), "it has no datasets of rows"),
        (RequiredRun("r", ("static",), changes={"thresholds.answer": 0.55}), "its thresholds.answer is 0.5, not 0.55"),
        (RequiredRun("r", ("static",), changes={"thresholds.answer": 0.5}), ""),
        (
            RequiredRun("r", ("static",), intervene=lambda *_: FrozenAnswerability()),
            "its episodes rest on those of another run",
        ),
        (RequiredRun("r", ("static",), injection=Injection(noise=0.4)), "its searches had nothing injected"),
    ],
)
def test_a_run_stands_in_where_it_has_what_is_needed(need: RequiredRun, reason: str) -> None:
    assert unfit(need, RUN) == reason
    assert stand_ins([need], {"mine": RUN}) == ({} if reason else {"r": "mine"})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"injection": Injection(noise=0.4)}, "its searches had 40 % irrelevant passages, drawn by seed 0"),
        ({"interventions": {"d": "frozen"}}, "its episodes do not decide with their own answerability"),
    ],
)
def test_a_run_on_other_evidence_or_with_another_answerability_stands_in_for_no_ordinary_one(
    changes: dict[str, Any], reason: str
) -> None:
    assert unfit(RequiredRun("r", ("static",)), run_record({"d": ["q0"]}, ("static",), **changes)) == reason


def test_an_injected_run_stands_in_where_just_that_is_needed() -> None:
    run = run_record({"d": ["q0"]}, ("static",), injection=Injection(noise=0.4, seed=3))
    assert unfit(RequiredRun("r", ("static",), injection=Injection(noise=0.4)), run) == ""


def test_a_run_that_is_of_no_use_is_refused_with_the_reason() -> None:
    with pytest.raises(StudyError, match=r"The run mine has not what is needed: it has no episodes of crag \(run r\)"):
        refuse_idle([RequiredRun("r", ("crag",))], {"mine": RUN})
    refuse_idle([RequiredRun("r", ("crag",)), RequiredRun("s", ("static",))], {"mine": RUN})
