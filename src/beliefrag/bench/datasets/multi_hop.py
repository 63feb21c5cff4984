"""HotpotQA (Yang et al., 2018), 2WikiMultiHopQA (Ho et al., 2020) and MuSiQue-Ans (Trivedi et al., 2022).

Each question comes with its paragraphs. HotpotQA's distractor and fullwiki files have the same form; 2WikiMultiHopQA
adds its evidence as triples. MuSiQue marks the supporting paragraphs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from beliefrag.bench.datasets.formats import (
    BadRecord,
    DatasetEntry,
    DatasetFormat,
    HubFiles,
    PublishedRecord,
    Texts,
    make_passage,
    make_question,
    reader_of,
    register_format,
    split_in_name,
)


def _paired(*columns: str) -> BeforeValidator:
    """Read the hub's table form: a column of titles and a column that belongs to them."""

    def pair(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        title, other = (next((value[name] for name in each.split("|") if name in value), ()) for each in columns)
        return list(zip(title, other, strict=False))

    return BeforeValidator(pair)


class _Paragraphs(PublishedRecord):
    id: str = Field("", alias="_id")
    plain_id: str = Field("", alias="id")
    question: str
    answer: str | None = None
    context: Annotated[list[tuple[str, list[str]]], _paired("title", "sentences|content")]
    supporting_facts: Annotated[list[tuple[str, int]], _paired("title", "sent_id")] = Field(default_factory=list)
    type: Any = None
    level: Any = None
    evidences: Any = None
    answer_id: Any = None


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
    question = make_question(
        record.id or record.plain_id,
        record.question,
        [] if record.answer is None else [record.answer],
        [passage.id for title, passage in pairs if title in titles] if complete else None,
        labels=labels,
    )
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
    return DatasetEntry(
        make_question(record.id, record.question, answers, supporting or None, labels=labels), tuple(passages)
    )


HOTPOTQA = register_format(
    DatasetFormat(
        name="hotpotqa",
        title="HotpotQA (Yang et al., 2018)",
        licence="CC BY-SA 4.0",
        source="hotpotqa.github.io",
        expects="hotpot_dev_distractor_v1.json",
        read=reader_of(_Paragraphs, _read_hotpotqa),
    )
)
TWO_WIKI = register_format(
    DatasetFormat(
        name="2wikimultihopqa",
        title="2WikiMultiHopQA (Ho et al., 2020)",
        licence="Apache-2.0",
        source="github.com/Alab-NII/2wikimultihop",
        expects="dev.json",
        read=reader_of(_Paragraphs, _read_two_wiki),
        hub=HubFiles("voidful/2WikiMultihopQA", ("dev.json",)),
        notes=("Answer aliases are published in a file apart (id_aliases.json), which is not read.",),
    )
)
MUSIQUE = register_format(
    DatasetFormat(
        name="musique",
        title="MuSiQue-Ans v1.0 (Trivedi et al., 2022)",
        licence="CC BY 4.0",
        source="github.com/StonyBrookNLP/musique",
        expects="musique_ans_v1.0_dev.jsonl",
        read=reader_of(_MusiqueRecord, _read_musique),
        hub=HubFiles("dgslibisey/MuSiQue", ("musique_ans_v1.0_dev.jsonl",)),
    )
)
