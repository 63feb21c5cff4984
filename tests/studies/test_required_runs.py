"""The runs that studies require, and their options."""

from __future__ import annotations

import pytest

from beliefrag.studies import RequiredRun, StudyContext
from beliefrag.studies.make import combine_runs
from beliefrag.studies.study import choose_studies


def test_runs_of_one_name_are_made_once_with_the_methods_of_both() -> None:
    runs = combine_runs([RequiredRun("r", ("static", "beliefrag")), RequiredRun("r", ("crag", "beliefrag"))])
    assert [required.methods for required in runs] == [("static", "beliefrag", "crag")]
    for context in (StudyContext(), StudyContext(drafts_answers=False)):
        studies = choose_studies("all")
        names = [run.name for run in combine_runs(r for s in studies for r in s.options.required_runs(context))]
        assert len(set(names)) == len(names) > 0


def test_different_runs_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match=r"different runs .*'r'"):
        combine_runs([RequiredRun("r", ("static",)), RequiredRun("r", ("static",), thresholds={"answer": 0.55})])
