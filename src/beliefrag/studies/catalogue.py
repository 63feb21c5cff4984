"""All studies, in the order of the paper."""

from __future__ import annotations

from collections.abc import Mapping

from beliefrag.errors import SettingsError
from beliefrag.studies.belief import BELIEF
from beliefrag.studies.frontier import FRONTIER
from beliefrag.studies.holobench import HOLOBENCH
from beliefrag.studies.mechanism import MECHANISM
from beliefrag.studies.robustness import ROBUSTNESS
from beliefrag.studies.study import Study
from beliefrag.studies.thresholds import THRESHOLDS

__all__ = ["ALL", "STUDIES", "studies_named"]

ALL = "all"

_IN_ORDER: tuple[Study, ...] = (MECHANISM, THRESHOLDS, BELIEF, ROBUSTNESS, HOLOBENCH, FRONTIER)
STUDIES: Mapping[str, Study] = {study.name: study for study in _IN_ORDER}


def studies_named(name: str) -> tuple[Study, ...]:
    """The study of that name, or all of them.

    Raises:
        SettingsError: There is none.
    """
    if name == ALL:
        return tuple(STUDIES.values())
    if name not in STUDIES:
        raise SettingsError(f"No study is called {name!r}.", remedy=f"Known: {', '.join(STUDIES)}, or {ALL}.")
    return (STUDIES[name],)
