"""HotpotQA, distractor and fullwiki JSON (Yang et al., 2018): ten paragraphs a question, each a list of sentences."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.bench.datasets.entry import BadRecord, Entry, kept, labelled, make_passage, needed, split_in_name, text
from beliefrag.bench.datasets.format import Format, per_record

__all__ = ["HOTPOTQA", "paragraphs_entry"]


def paragraphs_entry(record: Mapping[str, Any], path: Path) -> Entry:
    """A question with paragraphs by title and supporting facts as pairs of title and sentence number."""
    question_id = text(record, "_id" if "_id" in record else "id")
    pairs = [(title, make_passage(title, " ".join(sentences))) for title, sentences in _paragraphs(record)]
    facts = _facts(record)
    titles = {title for title, _ in facts}
    # The fullwiki files list facts whose paragraphs they do not bring: what is not there cannot be recalled.
    complete = bool(titles) and titles <= {title for title, _ in pairs}
    labels = {"split": split_in_name(path), **kept(record, "type", "level", "evidences", "answer_id")}
    labels |= {
        "supporting_facts": [list(fact) for fact in facts],
        "context_ids": [passage.id for _, passage in pairs],
    }
    question = labelled(
        question_id,
        text(record, "question"),
        [text(record, "answer")] if "answer" in record else [],
        [passage.id for title, passage in pairs if title in titles] if complete else None,
        labels=labels,
    )
    return Entry(question, tuple(passage for _, passage in pairs))


def _paragraphs(record: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    context = needed(record, "context")
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


def _facts(record: Mapping[str, Any]) -> list[tuple[str, int]]:
    facts = record.get("supporting_facts") or []
    if isinstance(facts, dict):
        facts = list(zip(facts.get("title", ()), facts.get("sent_id", ()), strict=False))
    try:
        return [(str(title), int(sentence)) for title, sentence in facts]
    except (TypeError, ValueError):
        raise BadRecord("has 'supporting_facts' that are not pairs of title and sentence number") from None


def _entry(record: Mapping[str, Any], path: Path) -> Entry:
    if "evidences" in record:
        raise BadRecord("has 'evidences', which HotpotQA has not and 2WikiMultiHopQA has")
    return paragraphs_entry(record, path)


HOTPOTQA = Format(
    name="hotpotqa",
    title="HotpotQA (Yang et al., 2018)",
    licence="CC BY-SA 4.0",
    source="hotpotqa.github.io",
    expects="hotpot_dev_distractor_v1.json",
    read=per_record(_entry),
)
