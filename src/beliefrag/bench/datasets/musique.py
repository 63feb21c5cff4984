"""MuSiQue-Ans JSON Lines (Trivedi et al., 2022): twenty paragraphs a question, the supporting ones marked."""

from __future__ import annotations

from collections.abc import Mapping
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
from beliefrag.bench.datasets.formats import DatasetFormat, HubFiles, reader_of, register_format

__all__ = ["MUSIQUE"]


def _read_question(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    paragraphs = required_value(record, "paragraphs")
    if not isinstance(paragraphs, list) or not all(isinstance(paragraph, dict) for paragraph in paragraphs):
        raise BadRecord("has 'paragraphs' that are not a list of objects")
    if record.get("answerable") is False:
        raise BadRecord("is unanswerable (MuSiQue-Full); give the MuSiQue-Ans file")
    pairs = [
        (
            make_passage(required_text(paragraph, "title"), required_text(paragraph, "paragraph_text")),
            paragraph.get("is_supporting"),
        )
        for paragraph in paragraphs
    ]
    question_id = required_text(record, "id")
    labels: dict[str, Any] = {"split": split_in_name(path), "hop": question_id.partition("__")[0]}
    labels |= {"decomposition": record.get("question_decomposition"), **select_fields(record, "answerable")}
    labels["context_ids"] = [passage.id for passage, _ in pairs]
    supporting = [passage.id for passage, is_supporting in pairs if is_supporting]
    answers = [required_text(record, "answer")] if "answer" in record else []
    answers += text_list(record.get("answer_aliases") or [], "answer_aliases")
    question = make_question(question_id, required_text(record, "question"), answers, supporting or None, labels=labels)
    return DatasetEntry(question, tuple(passage for passage, _ in pairs))


MUSIQUE = register_format(
    DatasetFormat(
        name="musique",
        title="MuSiQue-Ans v1.0 (Trivedi et al., 2022)",
        licence="CC BY 4.0",
        source="github.com/StonyBrookNLP/musique",
        expects="musique_ans_v1.0_dev.jsonl",
        read=reader_of(_read_question),
        hub=HubFiles("dgslibisey/MuSiQue", ("musique_ans_v1.0_dev.jsonl",)),
    )
)
