"""Turns published files into the common form, with a card that says what came of which file."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from beliefrag._version import __version__
from beliefrag.bench.card import Card
from beliefrag.bench.datasets.catalogue import FORMATS, format_named
from beliefrag.bench.datasets.common_form import load_passages
from beliefrag.bench.datasets.entry import Entry
from beliefrag.bench.datasets.format import Format
from beliefrag.bench.datasets.input_hashes import input_records, noted_files
from beliefrag.bench.datasets.records import Problem
from beliefrag.bench.datasets.writing import CARD, write_records
from beliefrag.bench.questions import Dataset, LabelledQuestion
from beliefrag.runs.errors import DataError
from beliefrag.types import Passage

__all__ = ["import_dataset", "read_published"]

_SHOWN = 3
_TRIED = 50


def import_dataset(
    name: str, files: Sequence[Path], out: Path, *, corpus: Path | None = None, skip_broken: bool = False
) -> Card:
    """Writes the common form of published files into a new folder.

    Args:
        name: The format, such as `hotpotqa`.
        files: The published files, packed with gzip or not.
        out: The folder to make. It must not exist, or be empty.
        corpus: Further passages to search, in the common form: needed where a benchmark has none of its own.
        skip_broken: Leave out records that cannot be read, and list them in the card. Otherwise they are an error.

    Raises:
        SettingsError: There is no such format.
        DataError: A file is not of this format or broken, or the folder is in use.
    """
    published = format_named(name)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists already.", remedy="Name another folder, or remove it first.")
    dataset = read_published(published, files, corpus=corpus, skip_broken=skip_broken)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed: a folder that exists is complete.
    aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        outputs = write_records(dataset.questions, dataset.passages, aside)
        card = dataset.card.model_copy(update={"outputs": tuple(outputs)})
        (aside / CARD).write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
        aside.chmod(0o755)
        aside.replace(out)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return card


def read_published(
    published: Format, files: Sequence[Path], *, corpus: Path | None = None, skip_broken: bool = False
) -> Dataset:
    """The dataset that published files hold, without writing anything.

    Raises:
        DataError: A file is not of this format, or broken.
    """
    if not files:
        raise DataError(f"No file of {published.name} is given.", remedy=f"Give {published.expects}.")
    with noted_files() as noted:
        dataset = _read(published, files, corpus, skip_broken)
    inputs = input_records(noted, (*files, *([corpus] if corpus else [])))
    return replace(dataset, card=dataset.card.model_copy(update={"inputs": inputs}))


def _read(published: Format, files: Sequence[Path], corpus: Path | None, skip_broken: bool) -> Dataset:
    questions: dict[str, LabelledQuestion] = {}
    passages: dict[str, Passage] = {}
    problems: list[Problem] = []
    places: dict[str, str] = {}
    for found in published.read(files):
        if isinstance(found, Problem):
            problems.append(found)
            continue
        question = found.question
        if question.id in questions:
            problems.append(_again(found, places[question.id]))
            continue
        places[question.id] = found.place
        questions[question.id] = question
        passages |= {passage.id: passage for passage in found.passages if passage.id not in passages}
    if not questions:
        raise _wrong_file(published, files, problems)
    if problems and not skip_broken:
        listed = "; ".join(str(problem) for problem in problems[:_SHOWN])
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise DataError(
            f"{len(problems)} records of {published.name} cannot be read: {listed}{more}.",
            remedy="Mend or download the file again, or leave them out with --skip-broken.",
        )
    if corpus:
        passages |= {passage.id: passage for passage in load_passages(corpus) if passage.id not in passages}
    dataset = Dataset(published.name, tuple(questions.values()), tuple(passages.values()), Card(name=published.name))
    return replace(dataset, card=_card(published, dataset, problems))


def _again(found: Entry, before: str) -> Problem:
    words = f"question {found.question.id}"
    if not found.place:
        return Problem(words, "occurs twice")
    return Problem(found.place, f"{words} occurs twice, first in {before}")


def _card(published: Format, dataset: Dataset, problems: Sequence[Problem]) -> Card:
    return Card(
        name=published.name,
        title=published.title,
        licence=published.licence,
        source=published.source,
        format=published.name,
        questions=len(dataset.questions),
        passages=len(dataset.passages),
        splits=dataset.splits(),
        with_supporting=sum(question.gold.supporting is not None for question in dataset.questions),
        skipped=tuple(str(problem) for problem in problems),
        notes=published.notes,
        made_by=f"beliefrag {__version__}",
    )


def _wrong_file(published: Format, files: Sequence[Path], problems: Sequence[Problem]) -> DataError:
    first = f" ({problems[0]})" if problems else ""
    others = [other.name for other in FORMATS.values() if other is not published and _reads(other, files)]
    remedy = f"It looks like {' or '.join(others)}." if others else f"Give {published.expects}."
    names = ", ".join(path.name for path in files)
    return DataError(f"There is no question of {published.name} in {names}{first}.", remedy=remedy)


def _reads(other: Format, files: Sequence[Path]) -> bool:
    """Whether another format makes sense of one of the first records."""
    try:
        return any(not isinstance(found, Problem) for found, _ in zip(other.read(files), range(_TRIED), strict=False))
    except DataError:
        return False
