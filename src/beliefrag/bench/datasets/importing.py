"""Downloads published files and turns them into the common form, with a card that says what came from which file."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from beliefrag._version import __version__
from beliefrag.bench.datasets.common_form import CARD, load_passages, write_dataset
from beliefrag.bench.datasets.dataset_entry import DatasetEntry
from beliefrag.bench.datasets.formats import DatasetFormat, HubFiles, all_formats, find_format
from beliefrag.bench.datasets.records import Problem, record_inputs, summarise_inputs
from beliefrag.bench.questions import Card, Dataset, LabelledQuestion
from beliefrag.hub import DownloadError, HubFile, download_file, list_files
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

__all__ = ["fetch_published_files", "import_dataset", "read_published_files"]

_PROBLEMS_SHOWN = 3
_RECORDS_TRIED = 50
_PLAIN_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


def import_dataset(
    name: str, files: Sequence[Path], out: Path, *, corpus: Path | None = None, skip_broken: bool = False
) -> Card:
    """Reads published files and writes them in the common form into a new folder.

    Args:
        name: The format, such as `hotpotqa`.
        files: The published files, compressed with gzip or not.
        out: The folder to create. It must not exist, or must be empty.
        corpus: Further passages to search, in the common form, for a benchmark that has none of its own.
        skip_broken: Leave out records that cannot be read, and list them in the card. Otherwise they are an error.

    Raises:
        SettingsError: There is no such format.
        DataError: A file is not of this format or broken, or the folder is in use.
    """
    published = find_format(name)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists already.", remedy="Name another folder, or remove it first.")
    dataset = read_published_files(published, files, corpus=corpus, skip_broken=skip_broken)
    out.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary folder and renamed: a folder that exists is complete.
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        outputs = write_dataset(dataset.questions, dataset.passages, temporary)
        card = dataset.card.model_copy(update={"outputs": tuple(outputs)})
        (temporary / CARD).write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")
        temporary.chmod(0o755)
        temporary.replace(out)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return card


def read_published_files(
    published: DatasetFormat, files: Sequence[Path], *, corpus: Path | None = None, skip_broken: bool = False
) -> Dataset:
    """Reads the dataset in published files, without writing anything.

    Raises:
        DataError: A file is not of this format, or broken.
    """
    if not files:
        raise DataError(f"No file of {published.name} is given.", remedy=f"Give {published.expects}.")
    with record_inputs() as inputs_read:
        dataset = _read_dataset(published, files, corpus, skip_broken)
    inputs = summarise_inputs(inputs_read, (*files, *([corpus] if corpus else [])))
    return replace(dataset, card=dataset.card.model_copy(update={"inputs": inputs}))


def _read_dataset(published: DatasetFormat, files: Sequence[Path], corpus: Path | None, skip_broken: bool) -> Dataset:
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
            problems.append(_duplicate(found, places[question.id]))
            continue
        places[question.id] = found.place
        questions[question.id] = question
        passages |= {passage.id: passage for passage in found.passages if passage.id not in passages}
    if not questions:
        raise _wrong_file_error(published, files, problems)
    if problems and not skip_broken:
        listed = "; ".join(str(problem) for problem in problems[:_PROBLEMS_SHOWN])
        more = f"; and {len(problems) - _PROBLEMS_SHOWN} more" if len(problems) > _PROBLEMS_SHOWN else ""
        raise DataError(
            f"{len(problems)} records of {published.name} cannot be read: {listed}{more}.",
            remedy="Correct or download the file again, or leave these records out with --skip-broken.",
        )
    if corpus:
        passages |= {passage.id: passage for passage in load_passages(corpus) if passage.id not in passages}
    dataset = Dataset(published.name, tuple(questions.values()), tuple(passages.values()), Card(name=published.name))
    return replace(dataset, card=_card(published, dataset, problems))


def _duplicate(found: DatasetEntry, before: str) -> Problem:
    words = f"question {found.question.id}"
    if not found.place:
        return Problem(words, "occurs twice")
    return Problem(found.place, f"{words} occurs twice, first in {before}")


def _card(published: DatasetFormat, dataset: Dataset, problems: Sequence[Problem]) -> Card:
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


def _wrong_file_error(published: DatasetFormat, files: Sequence[Path], problems: Sequence[Problem]) -> DataError:
    first = f" ({problems[0]})" if problems else ""
    others = [other.name for other in all_formats() if other is not published and _can_read(other, files)]
    remedy = f"It looks like {' or '.join(others)}." if others else f"Give {published.expects}."
    names = ", ".join(path.name for path in files)
    return DataError(f"There is no question of {published.name} in {names}{first}.", remedy=remedy)


def _can_read(other: DatasetFormat, files: Sequence[Path]) -> bool:
    """Says whether another format can read one of the first records."""
    try:
        return any(
            not isinstance(found, Problem) for found, _ in zip(other.read(files), range(_RECORDS_TRIED), strict=False)
        )
    except DataError:
        return False


def fetch_published_files(name: str, folder: Path, *, on_file: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Downloads the published files of a format from the Hugging Face hub; returns their paths.

    Args:
        name: The format.
        folder: Where to put them. Files that are there already are kept.
        on_file: Called with a line for each file that is downloaded.

    Raises:
        DataError: The hub does not have this format in its published form, or does not give the files.
    """
    published = find_format(name)
    if published.hub is None:
        raise DataError(
            f"{published.title} is not on the hub in its published form.",
            remedy=f"Take {published.expects} from {published.source}, then 'beliefrag data import {name} FILE...'.",
        )
    hub = published.hub
    folder.mkdir(parents=True, exist_ok=True)
    try:
        paths = []
        for file in hub.files or _list_matching(hub):
            if not (folder / file).exists():
                on_file(f"Getting {file} of {hub.repository}")
                download_file(HubFile(hub.repository, file, hub.revision, "dataset"), folder)
            paths.append(folder / file)
        return paths
    except DownloadError as error:
        raise DataError(
            error.message,
            remedy="Check the network and HF_ENDPOINT; or get the files elsewhere and use 'beliefrag data import'.",
        ) from None


def _list_matching(hub: HubFiles) -> list[str]:
    names = list_files(hub.repository, hub.revision, "dataset")
    # The list is somebody else's text: only names of plain words and slashes become paths.
    return [name for name in names if name.endswith(hub.ending) and _PLAIN_NAME.fullmatch(name)]
