"""NQ-open JSON Lines (Lee et al., 2019) and PopQA tables (Mallen et al., 2023): questions without passages.

The oracle files of lost-in-the-middle (Liu et al., 2024) are NQ-open with passages under `ctxs`, the gold one marked.
PopQA's questions are made from Wikidata triples.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
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
from beliefrag.bench.datasets.records import read_table

__all__ = ["NQ_OPEN", "POPQA"]


_NOT_NQ_FIELDS = frozenset({"paragraphs", "context", "supporting", "supporting_facts", "possible_answers"})
"""Fields that NQ-open never has. Other benchmarks have a question and an answer too."""


def _read_nq(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    if other := _NOT_NQ_FIELDS & record.keys():
        raise BadRecord(f"has {min(other)!r}, which NQ-open has not")
    asked = required_text(record, "question")
    key = "answers" if "answers" in record else "answer"
    answers = text_list(required_value(record, key), key)
    passages, supporting = [], []
    for context in record.get("ctxs") or ():
        if not isinstance(context, dict):
            raise BadRecord("has 'ctxs' that are not objects")
        passages.append(make_passage(required_text(context, "title"), required_text(context, "text")))
        if context.get("isgold"):
            supporting.append(passages[-1].id)
    labels = {"split": split_in_name(path), "context_ids": [passage.id for passage in passages]}
    question = make_question(_make_id(asked), asked, answers, supporting or None, labels=labels)
    return DatasetEntry(question, tuple(passages))


def _make_id(asked: str) -> str:
    # The file has no ids. One made from the words stays the same when the file is cut or put in another order.
    return "nq_" + hashlib.sha1(" ".join(asked.split()).encode(), usedforsecurity=False).hexdigest()[:14]


NQ_OPEN = register_format(
    DatasetFormat(
        name="nq",
        title="NQ-open (Kwiatkowski et al., 2019; Lee et al., 2019)",
        licence="Apache-2.0 (repository); Wikipedia text CC BY-SA",
        source="github.com/google-research-datasets/natural-questions, nq_open",
        expects="NQ-open.dev.jsonl",
        read=reader_of(_read_nq),
        notes=("NQ-open has no passages of its own: give a corpus with --corpus.",),
    )
)


def _read_popqa(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    try:
        answers = text_list(json.loads(required_text(record, "possible_answers")), "possible_answers")
    except ValueError:
        raise BadRecord("has 'possible_answers' that are not a JSON list") from None
    labels = {
        "split": split_in_name(path),
        **select_fields(record, "subj", "prop", "obj", "s_uri", "o_uri", "s_wiki_title"),
    }
    for key in ("s_pop", "o_pop"):
        if str(record.get(key, "")).strip().isdecimal():
            labels[key] = int(record[key])
    return DatasetEntry(
        make_question(required_text(record, "id").strip(), required_text(record, "question"), answers, labels=labels)
    )


POPQA = register_format(
    DatasetFormat(
        name="popqa",
        title="PopQA (Mallen et al., 2023)",
        licence="MIT",
        source="github.com/AlexTMallen/adaptive-retrieval",
        expects="test.tsv",
        read=reader_of(_read_popqa, partial(read_table, delimiter="\t")),
        hub=HubFiles("akariasai/PopQA", ("test.tsv",), revision="098765c79ea10a2cb19c828324e33281b8336ec0"),
        notes=("PopQA has no passages of its own: give a corpus with --corpus.",),
    )
)
