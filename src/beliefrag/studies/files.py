"""Writes studies down: numbers for programs, a table each, the figure, a page for people, and an index of all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.report.figure import open_figure, save_figure
from beliefrag.report.page import Block, BulletList, Heading, Page, PageLink, Paragraph
from beliefrag.runs.statistics import Estimate
from beliefrag.studies.errors import StudyError
from beliefrag.studies.page import blocks, provenance
from beliefrag.studies.recording import Recording
from beliefrag.studies.result import Result
from beliefrag.studies.study import Study

__all__ = ["NUMBERS_FILE", "write_index", "write_study"]

NUMBERS_FILE = "numbers.json"
_PICTURES = ("figure.png", "figure.pdf")


def write_study(study: Study, result: Result, recordings: Mapping[str, Recording], folder: Path) -> list[Path]:
    """Writes a study's files into its folder, over those of an earlier time. The same records give the same bytes.

    Raises:
        StudyError: They cannot be written.
    """
    texts = {NUMBERS_FILE: json.dumps(_record(study, result, recordings), indent=1, allow_nan=False) + "\n"}
    texts |= {f"{table.name}.csv": table.to_csv() for table in result.tables}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _clear(folder)
        pictures = _drawn(result, folder)
        page = Page(study.title, tuple(blocks(study, result, recordings, pictures[0] if pictures else None)))
        texts |= {"index.md": page.to_markdown(), "index.html": page.to_html()}
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return [*(folder / name for name in texts), *pictures]


def write_index(folder: Path, studies: Sequence[Study], left_out: Mapping[str, str]) -> list[Path]:
    """Writes the page that leads to all studies that the folder holds.

    Args:
        folder: Where the studies' folders lie.
        studies: Those that there are, in their order.
        left_out: Why some were not made.

    Raises:
        StudyError: It cannot be written, or a study's numbers cannot be read.
    """
    try:
        page = Page("Studies", tuple(_index(folder, studies, left_out)))
        files = {folder / "index.md": page.to_markdown(), folder / "index.html": page.to_html()}
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return list(files)


_BRACKETS = "In brackets: 95 % intervals over questions; ? marks one that rests on few of them."


def _index(folder: Path, studies: Iterable[Study], left_out: Mapping[str, str]) -> Iterator[Block]:
    yield Paragraph(_BRACKETS)
    for study in studies:
        path = folder / study.name / NUMBERS_FILE
        if not path.exists() and study.name not in left_out:
            continue
        yield Heading(study.title)
        yield Paragraph(study.question)
        if study.name in left_out:
            yield Paragraph(f"Not made: {left_out[study.name]}")
        else:
            try:
                record = json.loads(path.read_bytes())
                findings = tuple(str(each) for each in record["findings"])
                about = str(record["n"])
                fits = sorted({str(run["calibration"]) for run in record["runs"].values()})
            except (ValueError, KeyError, TypeError):
                raise StudyError(f"{path} holds no study.", remedy="Delete it and make the study again.") from None
            yield BulletList(findings)
            yield Paragraph(f"{about} Calibration: {', '.join(fits)}.")
            yield PageLink(f"The whole study: {study.name}", f"{study.name}/index")


def _record(study: Study, result: Result, recordings: Mapping[str, Recording]) -> dict[str, Any]:
    return {
        "format": 1,
        "study": study.name,
        "title": study.title,
        "question": study.question,
        "protocol": list(study.protocol),
        "n": result.n,
        "findings": list(result.findings),
        "notes": list(result.notes),
        "published": [
            {"what": each.what, "theirs": each.theirs, "ours": _plain(each.ours)} for each in result.published
        ],
        "numbers": _plain(result.numbers),
        "tables": [table.name for table in result.tables],
        "runs": {name: provenance(recording) for name, recording in recordings.items()},
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Estimate):
        return value.record()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _clear(folder: Path) -> None:
    """Removes the tables and pictures of an earlier time: what is not written anew would be taken for this one's."""
    try:
        earlier = json.loads((folder / NUMBERS_FILE).read_bytes())["tables"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    # Whatever else lies there is not ours.
    for name in [f"{Path(str(table)).name}.csv" for table in earlier] + list(_PICTURES):
        (folder / name).unlink(missing_ok=True)


def _drawn(result: Result, folder: Path) -> list[Path]:
    if result.draw is None:
        return []
    figure = open_figure(result.figure_size)
    result.draw(figure)
    return save_figure(figure, (folder / name for name in _PICTURES))


def _unwritable(folder: Path, error: OSError) -> StudyError:
    return StudyError(
        f"The study cannot be written to {folder}: {error.strerror}.", remedy="Name another folder with --out."
    )
