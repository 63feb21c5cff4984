"""MuSiQue-Ans JSON Lines (Trivedi et al., 2022): twenty paragraphs a question, the supporting ones marked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import (
    BadRecord,
    Entry,
    kept,
    labelled,
    make_passage,
    needed,
    split_in_name,
    strings,
    text,
)
from beliefrag.bench.datasets.format import Format, HubFiles, per_record

__all__ = ["MUSIQUE"]


def _entry(record: Mapping[str, Any], path: Path) -> Entry:
    paragraphs = needed(record, "paragraphs")
    if not isinstance(paragraphs, list) or not all(isinstance(paragraph, dict) for paragraph in paragraphs):
        raise BadRecord("has 'paragraphs' that are not a list of objects")
    if record.get("answerable") is False:
        raise BadRecord("is unanswerable (MuSiQue-Full); give the MuSiQue-Ans file")
    pairs = [
        (make_passage(text(paragraph, "title"), text(paragraph, "paragraph_text")), paragraph.get("is_supporting"))
        for paragraph in paragraphs
    ]
    question_id = text(record, "id")
    labels: dict[str, Any] = {"split": split_in_name(path), "hop": question_id.partition("__")[0]}
    labels |= {"decomposition": record.get("question_decomposition"), **kept(record, "answerable")}
    labels["context_ids"] = [passage.id for passage, _ in pairs]
    supporting = [passage.id for passage, is_supporting in pairs if is_supporting]
    answers = [text(record, "answer")] if "answer" in record else []
    answers += strings(record.get("answer_aliases") or [], "answer_aliases")
    question = labelled(question_id, text(record, "question"), answers, supporting or None, labels=labels)
    return Entry(question, tuple(passage for passage, _ in pairs))


MUSIQUE = Format(
    name="musique",
    title="MuSiQue-Ans v1.0 (Trivedi et al., 2022)",
    licence="CC BY 4.0",
    source="github.com/StonyBrookNLP/musique",
    expects="musique_ans_v1.0_dev.jsonl",
    read=per_record(_entry),
    hub=HubFiles("dgslibisey/MuSiQue", ("musique_ans_v1.0_dev.jsonl",)),
)
