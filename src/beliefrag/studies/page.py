"""The page of one study: its question, how it was answered, what came out, and the paper's values beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beliefrag.report.page import Block, BulletList, Heading, Paragraph, Picture
from beliefrag.report.published import MARK
from beliefrag.report.table import Table, format_cell
from beliefrag.studies.recording import Recording
from beliefrag.studies.result import Result
from beliefrag.studies.study import Study

__all__ = ["blocks", "provenance"]

_INTERVALS = (
    "In brackets: 95 % intervals of a seeded bootstrap over questions; ? marks one that rests on fewer than 20 of "
    "them. Where all questions are alike there is none."
)


def blocks(study: Study, result: Result, recordings: Mapping[str, Recording], picture: Path | None) -> Iterator[Block]:
    """What the page holds, from top to bottom."""
    yield Paragraph(study.question)
    yield Heading("What came out")
    yield BulletList(result.findings)
    if picture is not None:
        yield Picture(picture, picture.name, result.caption)
        yield Paragraph(f"{result.caption} Also as figure.pdf.")
    if result.published:
        yield Heading("Beside the paper")
        words = f"The values in the last column are theirs, {MARK}. {result.published_note}"
        yield Paragraph(words.strip())
        rows = tuple((b.what, format_cell(b.ours, b.digits), format_cell(b.theirs, b.digits)) for b in result.published)
        yield Table.of_texts("published", "", ("what", "here", "theirs"), rows)
    if result.tables:
        yield Heading("Numbers")
        yield Paragraph(_INTERVALS)
    yield from result.tables
    yield Heading("How")
    yield BulletList(study.protocol)
    yield Heading("What it rests on")
    yield Paragraph(result.n)
    yield BulletList(result.notes)
    for name, recording in recordings.items():
        yield Paragraph(f"Run {name}:")
        facts = ((what, _flat(which)) for what, which in provenance(recording).items())
        yield Table.of_texts(name, "", ("what", "which"), facts)


def provenance(recording: Recording) -> dict[str, Any]:
    """What a run's numbers depend on. Nothing of it changes when the same run is made again."""
    run = recording.run
    used = run.calibration
    sources = {name: source for name in recording.datasets if (source := run.datasets[name].source)}
    return {
        "model": run.model,
        "verifier form": run.verifier,
        "retriever": run.searched_with,
        "calibration": f"{used.name} ({used.sha256[:12]})" if used else "none",
        "judge": run.judge or "none",
        "seed": run.seed,
        "methods": list(run.methods),
        "questions": {name: len(run.datasets[name].question_ids) for name in recording.datasets},
        **({"source": sources} if sources else {}),
        "seen by the calibration": sum(len(run.datasets[name].seen_by_calibration) for name in recording.datasets),
        **({"answerability": dict(run.interventions)} if run.interventions else {}),
        "thresholds": dict(run.thresholds),
        "budget": dict(run.budget),
    }


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
