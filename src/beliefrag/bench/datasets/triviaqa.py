"""TriviaQA JSON (Joshi et al., 2017): questions with all aliases of the answer, and evidence in separate files.

Give the question file and, after it, the `evidence` folder of the release. The snippets of the search results in the
unfiltered files are passages too. Nobody marked which passage answers: those that contain an alias count as
supporting (distant supervision), and where none does, support is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.dataset_entry import (
    BadRecord,
    DatasetEntry,
    make_passage,
    make_question,
    required_text,
    required_value,
    select_fields,
    split_in_name,
    text_list,
)
from beliefrag.bench.datasets.formats import DatasetFormat, reader_of, register_format
from beliefrag.bench.datasets.records import Problem, read_input
from beliefrag.bench.metrics import normalise
from beliefrag.retrieval.documents import split_text
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

__all__ = ["TRIVIAQA"]


_FOLDERS = {"EntityPages": "wikipedia", "SearchResults": "web"}


def _read(files: Sequence[Path]) -> Iterator[DatasetEntry | Problem]:
    folders = [path for path in files if path.is_dir()]
    if len(folders) > 1:
        raise DataError(f"TriviaQA has one evidence folder, and {len(folders)} are given.", remedy="Give one.")
    evidence = folders[0].resolve() if folders else None
    reader = reader_of(lambda record, path: _read_question(record, path, evidence))
    yield from reader([path for path in files if not path.is_dir()])


def _read_question(record: Mapping[str, Any], path: Path, evidence: Path | None) -> DatasetEntry:
    answer = required_value(record, "Answer")
    if not isinstance(answer, dict):
        raise BadRecord("has an 'Answer' that is not an object")
    answers = [required_text(answer, "Value"), *text_list(answer.get("Aliases") or [], "Aliases")]
    answers += text_list(answer.get("HumanAnswers") or [], "HumanAnswers")
    passages = list({passage.id: passage for passage in _passages(record, evidence)}.values())
    wanted = [f" {alias} " for alias in map(normalise, answers) if alias]
    found = [passage.id for passage in passages if _mentions(passage, wanted)]
    labels = {"split": split_in_name(path), **select_fields(record, "QuestionSource")}
    labels |= {"supporting_kind": "distant", "context_ids": [passage.id for passage in passages]}
    question = make_question(
        required_text(record, "QuestionId"), required_text(record, "Question"), answers, found or None, labels=labels
    )
    return DatasetEntry(question, tuple(passages))


def _passages(record: Mapping[str, Any], evidence: Path | None) -> Iterator[Passage]:
    for key, folder in _FOLDERS.items():
        for page in record.get(key) or ():
            if not isinstance(page, dict):
                raise BadRecord(f"has {key!r} that are not objects")
            title = str(page.get("Title") or "")
            if page.get("Description"):
                yield make_passage(title, required_text(page, "Description"))
            if evidence and page.get("Filename"):
                for piece in split_text(_document(evidence / folder, required_text(page, "Filename"))):
                    yield make_passage(title, piece)


def _document(folder: Path, name: str) -> str:
    path = (folder / name).resolve()
    # The name comes from the file: it may not lead out of the folder that the user gave.
    if not path.is_relative_to(folder.resolve()):
        raise BadRecord(f"names an evidence file outside of the folder: {name!r}")
    try:
        content = read_input(path).decode("utf-8", "replace")
    except OSError:
        raise BadRecord(f"names an evidence file that is not there: {name!r}") from None
    return content.replace("\r\n", "\n").replace("\r", "\n")


def _mentions(passage: Passage, wanted: Sequence[str]) -> bool:
    words = f" {normalise(f'{passage.title} {passage.text}')} "
    return any(alias in words for alias in wanted)


TRIVIAQA = register_format(
    DatasetFormat(
        name="triviaqa",
        title="TriviaQA (Joshi et al., 2017)",
        licence="code Apache-2.0; questions and documents belong to their owners",
        source="nlp.cs.washington.edu/triviaqa",
        expects="qa/wikipedia-dev.json, and the evidence folder",
        read=_read,
        notes=("Supporting passages are those that contain an answer alias: distant supervision, not annotation.",),
    )
)
