"""NQ-open (Lee et al., 2019), PopQA (Mallen et al., 2023) and TriviaQA (Joshi et al., 2017).

The oracle files of lost-in-the-middle (Liu et al., 2024) are NQ-open with passages under `ctxs`, the gold one marked.
PopQA's questions are made from Wikidata triples. TriviaQA has all aliases of the answer, and evidence in files apart:
give the question file and, after it, the `evidence` folder of the release. The passages that contain an alias count as
supporting (distant supervision), and where none does, support is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Json

from beliefrag.bench.datasets.formats import (
    BadRecord,
    DatasetEntry,
    DatasetFormat,
    HubFiles,
    Problem,
    PublishedRecord,
    Texts,
    make_passage,
    make_question,
    question_id,
    read_table,
    reader_of,
    register_format,
    split_in_name,
)
from beliefrag.bench.metrics import normalise
from beliefrag.retrieval.documents import split_text
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

_NOT_NQ_FIELDS = frozenset({"paragraphs", "context", "supporting", "supporting_facts", "possible_answers"})
"""Fields that NQ-open never has. Other benchmarks have a question and an answer too."""


class _Context(PublishedRecord):
    title: str
    text: str
    isgold: Any = None


class _NqRecord(PublishedRecord):
    model_config = ConfigDict(extra="allow")

    question: str
    answers: Texts | None = None
    answer: Texts | None = None
    ctxs: list[_Context] | None = None


def _read_nq(record: _NqRecord, path: Path) -> DatasetEntry:
    if other := _NOT_NQ_FIELDS & (record.model_extra or {}).keys():
        raise BadRecord(f"has {min(other)!r}, which NQ-open has not")
    answers = record.answer if record.answers is None else record.answers
    if answers is None:
        raise BadRecord("has no 'answer'")
    passages = [make_passage(each.title, each.text) for each in record.ctxs or ()]
    supporting = [one.id for one, each in zip(passages, record.ctxs or (), strict=True) if each.isgold]
    labels = {"split": split_in_name(path), "context_ids": [passage.id for passage in passages]}
    # The file has no ids.
    identifier = question_id("nq_", record.question)
    return DatasetEntry(
        make_question(identifier, record.question, answers, supporting or None, labels=labels), tuple(passages)
    )


class _PopRecord(PublishedRecord):
    id: str
    question: str
    possible_answers: Json[Texts]
    subj: Any = None
    prop: Any = None
    obj: Any = None
    s_uri: Any = None
    o_uri: Any = None
    s_wiki_title: Any = None
    s_pop: str = ""
    o_pop: str = ""


def _read_popqa(record: _PopRecord, path: Path) -> DatasetEntry:
    labels = {
        "split": split_in_name(path),
        **record.labels("subj", "prop", "obj", "s_uri", "o_uri", "s_wiki_title"),
        **{key: int(value) for key in ("s_pop", "o_pop") if (value := getattr(record, key).strip()).isdecimal()},
    }
    return DatasetEntry(make_question(record.id.strip(), record.question, record.possible_answers, labels=labels))


class _Answer(PublishedRecord):
    Value: str
    Aliases: Texts | None = None
    HumanAnswers: Texts | None = None


class _Page(PublishedRecord):
    Title: str | None = None
    Description: str | None = None
    Filename: str | None = None


class _TriviaRecord(PublishedRecord):
    QuestionId: str
    Question: str
    Answer: _Answer
    EntityPages: list[_Page] | None = None
    SearchResults: list[_Page] | None = None
    QuestionSource: Any = None


def _read_triviaqa(files: Sequence[Path]) -> Iterator[DatasetEntry | Problem]:
    folders = [path for path in files if path.is_dir()]
    if len(folders) > 1:
        raise DataError(f"TriviaQA has one evidence folder, and {len(folders)} are given.", remedy="Give one.")
    evidence = folders[0].resolve() if folders else None
    reader = reader_of(_TriviaRecord, lambda record, path: _read_trivia_question(record, path, evidence))
    yield from reader([path for path in files if not path.is_dir()])


def _read_trivia_question(record: _TriviaRecord, path: Path, evidence: Path | None) -> DatasetEntry:
    answers = [record.Answer.Value, *(record.Answer.Aliases or ()), *(record.Answer.HumanAnswers or ())]
    passages = tuple({passage.id: passage for passage in _list_passages(record, evidence)}.values())
    wanted = [f" {alias} " for alias in map(normalise, answers) if alias]
    found = [passage.id for passage in passages if _mentions(passage, wanted)]
    labels = {"split": split_in_name(path), **record.labels("QuestionSource")}
    labels |= {"supporting_kind": "distant", "context_ids": [passage.id for passage in passages]}
    return DatasetEntry(
        make_question(record.QuestionId, record.Question, answers, found or None, labels=labels), passages
    )


def _list_passages(record: _TriviaRecord, evidence: Path | None) -> Iterator[Passage]:
    for pages, folder in ((record.EntityPages, "wikipedia"), (record.SearchResults, "web")):
        for page in pages or ():
            if page.Description:
                yield make_passage(page.Title or "", page.Description)
            if evidence and page.Filename:
                for piece in split_text(_read_document(evidence / folder, page.Filename)):
                    yield make_passage(page.Title or "", piece)


def _read_document(folder: Path, name: str) -> str:
    path = (folder / name).resolve()
    # The name comes from the file: it may not lead out of the folder that the user gave.
    if not path.is_relative_to(folder.resolve()):
        raise BadRecord(f"names an evidence file outside of the folder: {name!r}")
    try:
        content = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        raise BadRecord(f"names an evidence file that is missing: {name!r}") from None
    return content.replace("\r\n", "\n").replace("\r", "\n")


def _mentions(passage: Passage, wanted: Sequence[str]) -> bool:
    words = f" {normalise(f'{passage.title} {passage.text}')} "
    return any(alias in words for alias in wanted)


NQ_OPEN = register_format(
    DatasetFormat(
        name="nq",
        title="NQ-open (Kwiatkowski et al., 2019; Lee et al., 2019)",
        licence="Apache-2.0 (repository); Wikipedia text CC BY-SA",
        source="github.com/google-research-datasets/natural-questions, nq_open",
        expects="NQ-open.dev.jsonl",
        read=reader_of(_NqRecord, _read_nq),
        notes=("NQ-open has no passages of its own: give a corpus with --corpus.",),
    )
)
POPQA = register_format(
    DatasetFormat(
        name="popqa",
        title="PopQA (Mallen et al., 2023)",
        licence="MIT",
        source="github.com/AlexTMallen/adaptive-retrieval",
        expects="test.tsv",
        read=reader_of(_PopRecord, _read_popqa, partial(read_table, delimiter="\t")),
        hub=HubFiles("akariasai/PopQA", ("test.tsv",), revision="098765c79ea10a2cb19c828324e33281b8336ec0"),
        notes=("PopQA has no passages of its own: give a corpus with --corpus.",),
    )
)
TRIVIAQA = register_format(
    DatasetFormat(
        name="triviaqa",
        title="TriviaQA (Joshi et al., 2017)",
        licence="code Apache-2.0; questions and documents belong to their owners",
        source="nlp.cs.washington.edu/triviaqa",
        expects="qa/wikipedia-dev.json, and the evidence folder",
        read=_read_triviaqa,
        notes=("Supporting passages are those that contain an answer alias: distant supervision, not annotation.",),
    )
)
