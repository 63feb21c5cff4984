"""HotpotQA, 2WikiMultiHopQA, MuSiQue, NQ-open, PopQA, TriviaQA and RGB, in the forms in which they are published.

HotpotQA's distractor and fullwiki files have the same form; 2WikiMultiHopQA adds its evidence as triples. The oracle
files of lost-in-the-middle (Liu et al., 2024) are NQ-open with passages under `ctxs`. TriviaQA has its evidence in
files apart: give the question file and, after it, the `evidence` folder of the release; the passages that contain an
alias of the answer count as supporting (distant supervision). Of RGB, `en.json` and `en_refine.json` test noise,
`en_int.json` has answers in several parts, and `en_fact.json` counterfactuals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field, Json

from beliefrag.bench.datasets.formats import (
    AnswerGroups,
    BadRecord,
    DatasetEntry,
    PublishedRecord,
    Texts,
    make_passage,
    make_question,
    name_without_gz,
    question_id,
    read_table,
    reader_of,
    register_described,
    split_in_name,
)
from beliefrag.bench.metrics import normalise
from beliefrag.retrieval.documents import split_text
from beliefrag.runs.run_errors import DataError
from beliefrag.types import Passage

_NOT_NQ_FIELDS = frozenset({"paragraphs", "context", "supporting", "supporting_facts", "possible_answers"})
"""Fields that NQ-open never has. Other benchmarks have a question and an answer too."""


def _paired(*columns: str) -> BeforeValidator:
    """Read the hub's table form: a column of titles and a column that belongs to them."""

    def pair(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        title, other = (next((value[name] for name in each.split("|") if name in value), ()) for each in columns)
        return list(zip(title, other, strict=False))

    return BeforeValidator(pair)


class _Paragraphs(PublishedRecord):
    id: str = Field("", validation_alias=AliasChoices("_id", "id"))
    question: str
    answer: str | None = None
    context: Annotated[list[tuple[str, list[str]]], _paired("title", "sentences|content")]
    supporting_facts: Annotated[list[tuple[str, int]], _paired("title", "sent_id")] = Field(default_factory=list)
    level: Any = None
    evidences: Any = None


def _read_paragraphs(record: _Paragraphs, path: Path) -> DatasetEntry:
    pairs = [(title, make_passage(title, " ".join(sentences))) for title, sentences in record.context]
    titles = {title for title, _ in record.supporting_facts}
    # The fullwiki files list facts whose paragraphs they do not bring: what is missing cannot be recalled.
    complete = bool(titles) and titles <= {title for title, _ in pairs}
    labels = {"split": split_in_name(path), **record.labels("type", "level", "evidences", "answer_id")}
    labels |= {
        "supporting_facts": [list(fact) for fact in record.supporting_facts],
        "context_ids": [passage.id for _, passage in pairs],
    }
    answers = [] if record.answer is None else [record.answer]
    supporting = [passage.id for title, passage in pairs if title in titles] if complete else None
    question = make_question(record.id, record.question, answers, supporting, labels=labels)
    return DatasetEntry(question, tuple(passage for _, passage in pairs))


def _read_hotpotqa(record: _Paragraphs, path: Path) -> DatasetEntry:
    if record.evidences is not None:
        raise BadRecord("has 'evidences', which only 2WikiMultiHopQA has")
    return _read_paragraphs(record, path)


def _read_two_wiki(record: _Paragraphs, path: Path) -> DatasetEntry:
    if record.level is not None:
        raise BadRecord("has a 'level', which only HotpotQA has")
    return _read_paragraphs(record, path)


class _Paragraph(PublishedRecord):
    title: str
    paragraph_text: str
    is_supporting: Any = None


class _MusiqueRecord(PublishedRecord):
    id: str
    question: str
    answer: str | None = None
    answer_aliases: Texts = ()
    paragraphs: list[_Paragraph]
    question_decomposition: Any = None
    answerable: Any = None


def _read_musique(record: _MusiqueRecord, path: Path) -> DatasetEntry:
    if record.answerable is False:
        raise BadRecord("is unanswerable (MuSiQue-Full); give the MuSiQue-Ans file")
    passages = [make_passage(each.title, each.paragraph_text) for each in record.paragraphs]
    labels: dict[str, Any] = {"split": split_in_name(path), "hop": record.id.partition("__")[0]}
    labels |= {"decomposition": record.question_decomposition, **record.labels("answerable")}
    labels["context_ids"] = [passage.id for passage in passages]
    supporting = [one.id for one, each in zip(passages, record.paragraphs, strict=True) if each.is_supporting]
    answers = [*([] if record.answer is None else [record.answer]), *record.answer_aliases]
    question = make_question(record.id, record.question, answers, supporting or None, labels=labels)
    return DatasetEntry(question, tuple(passages))


class _Context(PublishedRecord):
    title: str
    text: str
    isgold: Any = None


class _NqRecord(PublishedRecord):
    question: str
    answers: Texts = Field(validation_alias=AliasChoices("answers", "answer"))
    ctxs: list[_Context] | None = None


def _read_nq(record: _NqRecord, path: Path) -> DatasetEntry:
    if other := _NOT_NQ_FIELDS & (record.model_extra or {}).keys():
        raise BadRecord(f"has {min(other)!r}, which NQ-open does not have")
    passages = [make_passage(each.title, each.text) for each in record.ctxs or ()]
    supporting = [one.id for one, each in zip(passages, record.ctxs or (), strict=True) if each.isgold]
    labels = {"split": split_in_name(path), "context_ids": [passage.id for passage in passages]}
    # The file has no ids.
    identifier = question_id("nq_", record.question)
    question = make_question(identifier, record.question, record.answers, supporting or None, labels=labels)
    return DatasetEntry(question, tuple(passages))


class _PopRecord(PublishedRecord):
    id: str
    question: str
    possible_answers: Json[Texts]
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


def _read_triviaqa(files: Sequence[Path]) -> Iterator[DatasetEntry]:
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
    texts = {passage.id: f" {normalise(f'{passage.title} {passage.text}')} " for passage in passages}
    found = [key for key, text in texts.items() if any(alias in text for alias in wanted)]
    labels = {"split": split_in_name(path), **record.labels("QuestionSource")}
    labels |= {"supporting_kind": "distant", "context_ids": list(texts)}
    question = make_question(record.QuestionId, record.Question, answers, found or None, labels=labels)
    return DatasetEntry(question, passages)


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


class _Snippets(PublishedRecord):
    id: str
    query: str
    answer: AnswerGroups
    fakeanswer: Texts | None = None
    positive: list[str | list[str]]
    negative: list[str | list[str]]
    positive_wrong: tuple[str | list[str], ...] = ()


def _read_rgb(record: _Snippets, path: Path) -> DatasetEntry:
    nested = any(isinstance(item, list) for item in record.positive)
    positive, negative, wrong = map(_make_passages, (record.positive, record.negative, record.positive_wrong))
    labels = {
        "subset": "fact" if wrong else "integration" if nested else "noise",
        "negative_ids": [passage.id for passage in negative],
        **({"positive_wrong_ids": [passage.id for passage in wrong]} if wrong else {}),
        **record.labels("source"),
    }
    question = make_question(
        # The files number their questions from 0 each: the name keeps them apart.
        f"rgb_{name_without_gz(path).partition('.')[0]}_{record.id}",
        record.query,
        [spelling for group in record.answer for spelling in group],
        [passage.id for passage in positive] or None,
        groups=record.answer,
        # Some records list several spellings of the false answer; the first is the one that the passages use.
        fake_answer=record.fakeanswer[0] if record.fakeanswer and record.fakeanswer[0] else None,
        labels=labels,
    )
    return DatasetEntry(question, (*positive, *negative, *wrong))


def _make_passages(items: Iterable[str | list[str]]) -> list[Passage]:
    texts = (text for item in items for text in ([item] if isinstance(item, str) else item))
    return [make_passage("", text) for text in texts if text.strip()]


register_described(
    {
        "hotpotqa": reader_of(_Paragraphs, _read_hotpotqa),
        "2wikimultihopqa": reader_of(_Paragraphs, _read_two_wiki),
        "musique": reader_of(_MusiqueRecord, _read_musique),
        "nq": reader_of(_NqRecord, _read_nq),
        "popqa": reader_of(_PopRecord, _read_popqa, partial(read_table, delimiter="\t")),
        "triviaqa": _read_triviaqa,
        "rgb": reader_of(_Snippets, _read_rgb),
    }
)
