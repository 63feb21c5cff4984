"""What a study is: a question, the runs that it needs, and a pure function from their records to a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from beliefrag.runs.states import Label
from beliefrag.studies.recording import Recording
from beliefrag.studies.required_runs import RequiredRun
from beliefrag.studies.result import Result

__all__ = ["Study", "StudyOptions"]


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """What whoever asks for studies can choose."""

    label: Label = "f1"
    """What says that an answer is right."""
    of: str = "beliefrag"
    """The method that others are compared with."""
    methods: tuple[str, ...] | None = None
    """What is compared with it; None leaves it to the study."""
    drafts: bool = True
    """Whether the verifier drafts an answer at every state, so that BeliefRAG's own episodes have answers on trial."""


@dataclass(frozen=True, slots=True)
class Study:
    """One study."""

    name: str
    """Of its command and its folder."""
    title: str
    question: str
    """In one line."""
    protocol: tuple[str, ...]
    """How it is answered, a sentence or two each; also where that is not the paper's way."""
    needs: Callable[[StudyOptions], tuple[RequiredRun, ...]]
    work_out: Callable[[Mapping[str, Recording], StudyOptions], Result]
    """Takes the recordings of the needed runs by name. It is pure: the same records give the same result."""
