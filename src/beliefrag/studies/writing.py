"""Writes studies into a folder: numbers for programs, a file for each table, the figure, a page, and an index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beliefrag.report.figure import save_figure
from beliefrag.report.page import Block, BulletList, Heading, Page, PageLink, Paragraph, Picture
from beliefrag.report.table import Table
from beliefrag.runs.record import thresholds_of
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.recording import Recording
from beliefrag.studies.study import STUDIES, ChosenStudy
from beliefrag.studies.study_result import StudyError, StudyResult

__all__ = ["NUMBERS_FILE", "write_index", "write_study"]

NUMBERS_FILE = "numbers.json"
_PICTURES = ("figure.png", "figure.pdf")


def write_study(
    study: ChosenStudy, result: StudyResult, recordings: Mapping[str, Recording], folder: Path
) -> list[Path]:
    """Writes the files of a study into its folder, over those of an earlier time. The same records give the same bytes.

    Raises:
        StudyError: They cannot be written.
    """
    texts = {NUMBERS_FILE: json.dumps(_study_record(study, result, recordings), indent=1, allow_nan=False) + "\n"}
    texts |= {f"{table.name}.csv": table.to_csv() for table in result.tables}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_earlier_files(folder)
        figure = result.open_figure()
        pictures = save_figure(figure, (folder / name for name in _PICTURES)) if figure else []
        page = Page(study.extension.title, tuple(_study_blocks(study, result, recordings, pictures)))
        texts |= {"index.md": page.to_markdown(), "index.html": page.to_html()}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return [*(folder / name for name in texts), *pictures]


def write_index(folder: Path, left_out: Mapping[str, str]) -> list[Path]:
    """Writes the page that leads to all studies that the folder holds.

    Args:
        folder: Where the folders of the studies are.
        left_out: For each study that was not made, by name, why.

    Raises:
        StudyError: It cannot be written, or the numbers of a study cannot be read.
    """
    made = {path.parent.name for path in folder.glob(f"*/{NUMBERS_FILE}")}
    try:
        page = Page(
            "Studies", tuple(_index_blocks(folder, [n for n in STUDIES if n in made or n in left_out], left_out))
        )
        files = {folder / "index.md": page.to_markdown(), folder / "index.html": page.to_html()}
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _cannot_write(folder, error) from error
    return list(files)


def _study_blocks(
    study: ChosenStudy, result: StudyResult, recordings: Mapping[str, Recording], pictures: Sequence[Path]
) -> Iterator[Block]:
    """Gives what the page of a study holds, from top to bottom."""
    yield Paragraph(study.extension.summary)
    figure: list[Block] = []
    if pictures:
        figure = [Picture(pictures[0], pictures[0].name, result.caption)]
        figure.append(Paragraph(f"{result.caption} Also as figure.pdf."))
    yield from result.page_blocks(figure)
    yield Heading("How")
    yield BulletList(study.options.protocol)
    yield Heading("What it rests on")
    yield Paragraph(result.sample)
    yield BulletList(result.notes)
    for name, recording in recordings.items():
        yield Paragraph(f"Run {name}:")
        facts = ((what, _as_text(which)) for what, which in _provenance(recording).items())
        yield Table.of_texts(name, "", ("what", "which"), facts)


def _index_blocks(folder: Path, names: Iterable[str], left_out: Mapping[str, str]) -> Iterator[Block]:
    yield Paragraph("In brackets: 95 % intervals over questions; ? marks one that rests on few of them.")
    for name in names:
        study = STUDIES[name]
        yield Heading(study.title)
        yield Paragraph(study.summary)
        if name in left_out:
            yield Paragraph(f"Not made: {left_out[name]}")
            continue
        path = folder / name / NUMBERS_FILE
        try:
            record = json.loads(path.read_bytes())
            findings = tuple(str(each) for each in record["findings"])
            sample = str(record["n"])
            calibrations = sorted({str(run["calibration"]) for run in record["runs"].values()})
        except (ValueError, KeyError, TypeError):
            raise StudyError(f"{path} holds no study.", remedy="Delete it and make the study again.") from None
        yield BulletList(findings)
        yield Paragraph(f"{sample} Calibration: {', '.join(calibrations)}.")
        yield PageLink(f"The whole study: {name}", f"{name}/index")


def _study_record(study: ChosenStudy, result: StudyResult, recordings: Mapping[str, Recording]) -> dict[str, Any]:
    return {
        "format": 1,
        "study": study.name,
        "title": study.extension.title,
        "question": study.extension.summary,
        "protocol": list(study.options.protocol),
        "n": result.sample,
        "findings": list(result.findings),
        "notes": list(result.notes),
        "published": [
            {"what": each.what, "theirs": each.theirs, "ours": _as_json(each.ours)} for each in result.paper_values
        ],
        "numbers": _as_json(result.numbers),
        "tables": [table.name for table in result.tables],
        "runs": {name: _provenance(recording) for name, recording in recordings.items()},
    }


def _provenance(recording: Recording) -> dict[str, Any]:
    """Gives what the numbers of a run depend on. Nothing of it changes when the same run is made again."""
    run = recording.run
    used = next(iter(run.calibrations), None)
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
        "thresholds": asdict(thresholds_of(run)),
        "budget": dict(run.budget),
    }


def _as_json(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value.record()
    if isinstance(value, Mapping):
        return {name: _as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value


def _as_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _remove_earlier_files(folder: Path) -> None:
    """Removes tables and pictures of an earlier time: if they are not written again, they must not stay."""
    try:
        earlier = json.loads((folder / NUMBERS_FILE).read_bytes())["tables"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    # Other files in the folder belong to somebody else, and stay.
    for name in [f"{Path(str(table)).name}.csv" for table in earlier] + list(_PICTURES):
        (folder / name).unlink(missing_ok=True)


def _cannot_write(folder: Path, error: OSError) -> StudyError:
    return StudyError(
        f"The study cannot be written to {folder}: {error.strerror}.", remedy="Name another folder with --out."
    )
