"""Measure answers in sentences on CLAPNQ: what the evidence supports, and what of it the annotators had chosen.

    python -m benchmarks.whole_answers --data DIR/clapnq --out docs/results/whole_answers.json --n 40

For each question the embedded model answers from the whole corpus. The answer is written even where it would be
declined, so that style and decision are told apart. `coverage` is the share of the annotators' selected sentences of
which at least half of the words stand in the answer. Questions come in a fixed order, answerable and unanswerable in
turn; replies are kept in the cache, and a row is written as soon as it is known.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag import BeliefRAG
from beliefrag.answering.packing import EMPTY_WORDS, lower_words
from beliefrag.record import Episode
from beliefrag.settings import DECLINE_BELOW
from beliefrag.types import Passage
from benchmarks.conversations import estimate, read_lines

STYLES = ("sentence", "paragraph")
Row = dict[str, Any]


def take_turns(questions: Sequence[Mapping[str, Any]], n: int) -> list[Mapping[str, Any]]:
    """Return the first questions in a fixed order, answerable and unanswerable in turn."""
    ordered = sorted(questions, key=lambda one: hashlib.sha256(one["id"].encode()).hexdigest())
    groups = [[one for one in ordered if one["answerable"] is kind] for kind in (True, False)]
    return [one for pair in zip(*groups, strict=False) for one in pair][:n]


def cover_selected(answer: str, selected: Sequence[str]) -> float | None:
    """Return the share of the selected sentences that an answer covers; None without any."""
    words = set(lower_words(answer))
    contents = [set(lower_words(each)) - EMPTY_WORDS for each in selected]
    return sum(2 * len(each & words) >= len(each) for each in contents) / len(contents) if contents else None


def describe(episode: Episode, question: Mapping[str, Any], style: str) -> Row:
    """Return the numbers of one answer."""
    selected = question["selected_sentences"] if question["answerable"] else ()
    written = len(episode.sentences) + episode.left_out
    return {
        "id": question["id"],
        "answerable": question["answerable"],
        "style": style,
        "given": (episode.answerability or 0.0) >= DECLINE_BELOW,
        "probability": episode.answerability,
        "sentences": len(episode.sentences),
        "supported": len(episode.sentences) / written if written else None,
        "coverage": cover_selected(episode.answer or "", selected),
        "coverage_short": cover_selected(episode.short_answer or "", selected),
        "words": len((episode.answer or "").split()),
    }


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the means of each style with 95 % bootstrap intervals over questions."""
    found: dict[str, Any] = {}
    for style in STYLES:
        own = [row for row in rows if row["style"] == style]
        values = {
            "supported": [row["supported"] for row in own if row["supported"] is not None],
            "coverage": [row["coverage"] for row in own if row["coverage"] is not None],
            "coverage_short": [row["coverage_short"] for row in own if row["coverage_short"] is not None],
            "answerable_given": [float(row["given"]) for row in own if row["answerable"]],
            "unanswerable_given": [float(row["given"]) for row in own if not row["answerable"]],
            "words": [float(row["words"]) for row in own],
        }
        found[style] = {name: {"n": len(each), "mean": estimate(each)} for name, each in values.items() if each}
    return found


def main() -> None:
    """Measure, and write the rows with their summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--styles", nargs="+", choices=STYLES, default=STYLES)
    given = parser.parse_args()
    passages = [Passage(one["id"], one["title"], one["text"]) for one in read_lines(given.data / "corpus.jsonl.gz")]
    questions = take_turns(list(read_lines(given.data / "questions.jsonl.gz")), given.n)
    never_decline = {"abstain": False, "decline_below": 0.0}
    opened = {
        style: BeliefRAG(passages=passages, answer_style=style, thresholds=never_decline, context=2048)
        for style in given.styles
    }
    rows: list[Row] = []
    for question in questions:
        for style, rag in opened.items():
            episode = rag.ask(question["question"])
            if episode.error is not None:
                raise SystemExit(f"error: {episode.error.message} {episode.error.remedy}")
            rows.append(describe(episode, question, style))
        about = {"date": datetime.date.today().isoformat(), "model": episode.model}
        content = about | {"summary": summarise(rows), "rows": rows}
        given.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
