"""The runs that studies required: shared by name, made in order, and an existing run stands in only where it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from beliefrag.errors import SettingsError
from beliefrag.methods.intervention import FrozenAnswerability
from beliefrag.runs.record import Injection
from beliefrag.settings import Settings
from beliefrag.studies import DatasetKind, RequiredRun, StudyContext
from beliefrag.studies.make import apply_changes, combine_runs, find_reusable_runs, reason_against
from beliefrag.studies.study import choose_studies
from tests.support.studied import run_record

ROWS = DatasetKind("datasets of rows", lambda dataset: False, lambda name: name == "rows")
RUN = run_record({"d": ["q0"]}, ("static", "beliefrag"))


def test_runs_of_one_name_are_made_once_with_the_methods_of_both() -> None:
    runs = combine_runs(
        [
            RequiredRun("r", ("static", "beliefrag"), sufficient_methods=("beliefrag",)),
            RequiredRun("r", ("crag", "beliefrag")),
        ]
    )
    assert [required.methods for required in runs] == [("static", "beliefrag", "crag")]
    assert runs[0].sufficient_methods == ("beliefrag", "crag")
    for context, options in ((StudyContext(), {}), (StudyContext(drafts_answers=False), {"methods": "static,crag"})):
        studies = choose_studies("all", options)
        names = [run.name for run in combine_runs(r for s in studies for r in s.options.required_runs(context))]
        assert len(set(names)) == len(names) > 0


def test_different_runs_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match=r"different runs .*'r'"):
        combine_runs(
            [RequiredRun("r", ("static",)), RequiredRun("r", ("static",), changes={"thresholds.answer": 0.55})]
        )


def test_options_are_read_from_the_name_and_beside_it() -> None:
    (one,) = choose_studies("frontier:of=static,methods=static+no_rag")
    (other,) = choose_studies("frontier", {"of": "static", "methods": "no_rag,static"})
    assert one.options == other.options
    assert one.options.required_runs(StudyContext())[0].methods == ("no_rag", "static")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("nothing", {}, "nothing"),
        ("belief", {"colour": "red"}, "colour"),
        ("frontier:of=best", {}, "best"),
        ("all", {"colour": "red"}, "colour"),
    ],
)
def test_a_name_or_option_that_there_is_not_is_refused(text: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        choose_studies(text, options)


def test_changes_are_made_to_the_settings_and_to_nothing_else() -> None:
    settings = Settings(concurrency=3)
    other = apply_changes(settings, RequiredRun("r", (), changes={"thresholds.answer": 0.55, "budget.rounds": 2}))
    assert (other.thresholds.answer, other.budget.rounds, other.concurrency) == (0.55, 2, 3)
    assert replace(other.thresholds, answer=0.5) == settings.thresholds
    with pytest.raises(ValueError, match=r"thresholds\.anwser"):
        apply_changes(settings, RequiredRun("r", (), changes={"thresholds.anwser": 0.55}))


@pytest.mark.parametrize(
    ("required", "reason"),
    [
        (RequiredRun("r", ("static", "beliefrag")), ""),
        (RequiredRun("r", ("crag", "beliefrag")), "episodes of crag"),
        (RequiredRun("r", ("crag", "beliefrag"), sufficient_methods=("beliefrag",)), ""),
        (RequiredRun("r", ("static",), kind=ROWS), "no datasets of rows"),
        (RequiredRun("r", ("static",), changes={"thresholds.answer": 0.55}), "thresholds.answer is 0.5, not 0.55"),
        (RequiredRun("r", ("static",), changes={"thresholds.answer": 0.5}), ""),
        (
            RequiredRun("r", ("static",), make_intervention=lambda *_: FrozenAnswerability()),
            "another run",
        ),
        (RequiredRun("r", ("static",), injection=Injection(noise=0.4)), "nothing injected"),
    ],
)
def test_a_run_stands_in_if_it_has_what_is_needed(required: RequiredRun, reason: str) -> None:
    assert bool(found := reason_against(required, RUN)) == bool(reason) and reason in found
    assert find_reusable_runs([required], {"mine": RUN}) == ({} if reason else {"r": "mine"})


@pytest.mark.parametrize("changes", [{"injection": Injection(noise=0.4)}, {"interventions": {"d": "frozen"}}])
def test_a_run_on_other_evidence_or_with_another_answerability_stands_in_for_no_ordinary_one(
    changes: dict[str, Any],
) -> None:
    assert reason_against(RequiredRun("r", ("static",)), run_record({"d": ["q0"]}, ("static",), **changes))
