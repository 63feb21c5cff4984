"""HotpotQA (Yang et al., 2018) and 2WikiMultiHopQA (Ho et al., 2020): ten paragraphs a question, in sentences.

HotpotQA's distractor and fullwiki files have the same form. 2WikiMultiHopQA adds its evidence as triples.
"""

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
)
from beliefrag.bench.datasets.formats import DatasetFormat, HubFiles, reader_of, register_format

__all__ = ["HOTPOTQA", "TWO_WIKI"]


def _read_paragraphs_question(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    """Gives a question with paragraphs by title and supporting facts as pairs of title and sentence number."""
    question_id = required_text(record, "_id" if "_id" in record else "id")
    pairs = [(title, make_passage(title, " ".join(sentences))) for title, sentences in _paragraphs(record)]
    facts = _supporting_facts(record)
    titles = {title for title, _ in facts}
    # The fullwiki files list facts whose paragraphs they do not bring: what is not there cannot be recalled.
    complete = bool(titles) and titles <= {title for title, _ in pairs}
    labels = {"split": split_in_name(path), **select_fields(record, "type", "level", "evidences", "answer_id")}
    labels |= {
        "supporting_facts": [list(fact) for fact in facts],
        "context_ids": [passage.id for _, passage in pairs],
    }
    question = make_question(
        question_id,
        required_text(record, "question"),
        [required_text(record, "answer")] if "answer" in record else [],
        [passage.id for title, passage in pairs if title in titles] if complete else None,
        labels=labels,
    )
    return DatasetEntry(question, tuple(passage for _, passage in pairs))


def _paragraphs(record: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    context = required_value(record, "context")
    if isinstance(context, dict):
        # The hub's table form: a column of titles and a column of lists of sentences.
        titles, columns = context.get("title"), context.get("sentences", context.get("content"))
        context = list(zip(titles, columns, strict=False)) if isinstance(titles, list) and columns else None
    try:
        pairs = [(title, list(sentences)) for title, sentences in context]
    except (TypeError, ValueError):
        raise BadRecord("has a 'context' that is not a list of titles with sentences") from None
    if not all(isinstance(piece, str) for title, sentences in pairs for piece in (title, *sentences)):
        raise BadRecord("has a 'context' with something that is not text")
    return pairs


def _supporting_facts(record: Mapping[str, Any]) -> list[tuple[str, int]]:
    facts = record.get("supporting_facts") or []
    if isinstance(facts, dict):
        facts = list(zip(facts.get("title", ()), facts.get("sent_id", ()), strict=False))
    try:
        return [(str(title), int(sentence)) for title, sentence in facts]
    except (TypeError, ValueError):
        raise BadRecord("has 'supporting_facts' that are not pairs of title and sentence number") from None


def _read_hotpotqa(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    if "evidences" in record:
        raise BadRecord("has 'evidences', which HotpotQA has not and 2WikiMultiHopQA has")
    return _read_paragraphs_question(record, path)


HOTPOTQA = register_format(
    DatasetFormat(
        name="hotpotqa",
        title="HotpotQA (Yang et al., 2018)",
        licence="CC BY-SA 4.0",
        source="hotpotqa.github.io",
        expects="hotpot_dev_distractor_v1.json",
        read=reader_of(_read_hotpotqa),
    )
)


def _read_two_wiki(record: Mapping[str, Any], path: Path) -> DatasetEntry:
    if "level" in record:
        raise BadRecord("has a 'level', which 2WikiMultiHopQA has not and HotpotQA has")
    return _read_paragraphs_question(record, path)


TWO_WIKI = register_format(
    DatasetFormat(
        name="2wikimultihopqa",
        title="2WikiMultiHopQA (Ho et al., 2020)",
        licence="Apache-2.0",
        source="github.com/Alab-NII/2wikimultihop",
        expects="dev.json",
        read=reader_of(_read_two_wiki),
        hub=HubFiles("voidful/2WikiMultihopQA", ("dev.json",)),
        notes=("Answer aliases are published in a file apart (id_aliases.json), which is not read.",),
    )
)
