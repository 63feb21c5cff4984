"""What a study is, and where all studies are registered, ours and those of other packages.

A study is a frozen dataclass whose fields are its options. It names the runs that it needs, and works its result out of
their recordings, without any model, file or clock. A file of its own is all that a new one takes:

    @STUDIES.register("rounds", title="Rounds", summary="How many searches does each method make?")
    @dataclass(frozen=True, slots=True)
    class RoundsStudy:
        protocol: ClassVar[tuple[str, ...]] = ("Every method answers the same questions.",)
        method: str = "beliefrag"

        def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]: ...

        def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult: ...

Another package names that module in the entry-point group `beliefrag.studies` of its `pyproject.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from beliefrag.errors import SettingsError
from beliefrag.registry import ExtensionChoice, Registry
from beliefrag.runs.states import Label
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.study_result import StudyResult

__all__ = ["ALL", "STUDIES", "ChosenStudy", "Study", "StudyContext", "choose_studies"]

ALL = "all"
"""Stands for all studies where the name of one is asked for."""


@dataclass(frozen=True, slots=True)
class StudyContext:
    """What is the same for all studies that are made together."""

    label: Label = "f1"
    """The measure that says whether an answer is right."""
    drafts_answers: bool = True
    """Whether the verifier drafts an answer at every state, so that the states of BeliefRAG have answers to judge."""


class Study(Protocol):
    """One study: the runs that it needs, and a pure function from their recordings to a result."""

    protocol: ClassVar[tuple[str, ...]]
    """How its question is answered, in sentences; also where that is not the way of the paper."""

    def required_runs(self, context: StudyContext) -> tuple[RequiredRun, ...]:
        """Names the runs that the study needs."""
        ...

    def analyse(self, recordings: Mapping[str, Recording], context: StudyContext) -> StudyResult:
        """Works out the result from the recordings of these runs, by name. The same records give the same result."""
        ...


ChosenStudy = ExtensionChoice[Study, StudyContext]
"""A study with its options, its name and its title; the summary of its registration is the question that it answers."""

STUDIES: Registry[Study, StudyContext] = Registry(
    "study",
    "beliefrag.studies",
    {
        name: f"beliefrag.studies.{name}"
        for name in ("mechanism", "thresholds", "belief", "robustness", "holobench", "frontier")
    },
    plural="studies",
)
"""Every study, ours in the order of the paper."""


def choose_studies(text: str, options: Mapping[str, Any] | None = None) -> tuple[ChosenStudy, ...]:
    """Gives the study that `NAME` or `NAME:key=value,...` stands for, or all of them for `all`.

    Args:
        text: What was typed.
        options: More options, by name. With `all` each goes to the studies that have it.

    Raises:
        SettingsError: The name, an option or a value cannot be used.
    """
    given = dict(options or {})
    if text != ALL:
        name = text.partition(":")[0].strip()
        return (STUDIES.choose(text, {name: given}),)
    studies = tuple(STUDIES.usable())
    known = {
        study.name: {key: given[key] for key in study.options.__dataclass_fields__ if key in given} for study in studies
    }
    if unused := [key for key in given if not any(key in own for own in known.values())]:
        raise SettingsError(f"No study has an option {unused[0]!r}.", remedy="Leave it out.")
    return tuple(STUDIES.choose(study.name, known) for study in studies)
