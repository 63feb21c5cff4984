r"""Measure answers in sentences on CLAPNQ: what the evidence supports, and what of it the annotators had chosen.

    python -m benchmarks.peers clapnq --out docs/results/clapnq_llamaindex.jsonl.gz
    python -m benchmarks.whole_answers --data DIR/clapnq --out docs/results/whole_answers.json \
        --peer docs/results/clapnq_llamaindex.jsonl.gz
    python -m benchmarks.whole_answers --data DIR/clapnq --out docs/results/whole_answers.json --read 30

For each question the embedded model answers from the whole corpus, in the style `sentence`. `given` says whether
people would get that answer; it is written even where they would not, so that style and decision are measured apart. A
written sentence is supported by the rule of `beliefrag.answering.sentences`. An answer covers a selected sentence of
the annotators if at least half of the words of that sentence stand in it. Questions come in a fixed order, answerable
and unanswerable in turn; replies are kept in the cache, and the rows are written after each question: the same command
resumes.

`--peer` scores what LlamaIndex answered (`python -m benchmarks.peers clapnq`) by the same rule, against the passages
that its engine read. `--read N` prints sentences that people would get, drawn with seed 0, with what they cite.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.answering.citing import choose_citations
from beliefrag.answering.packing import EMPTY_WORDS, lower_words
from beliefrag.answering.sentences import AnswerWriter, split_written
from beliefrag.record import Episode
from beliefrag.types import CitationRole, Passage
from benchmarks.asked import Asker, Row, append_line, read_lines, take_turns, write_rows

_SAYS_NOTHING = re.compile(
    r"\b(?:do|does|did|is|are|was|were|has|have|can|could)(?:n't| not)\b[^.]{0,80}\b(?:provid|mention|specif|contain"
    r"|state|includ|given|inform|answer|determin|address|detail|clear|available|relate)"
    r"|\bno (?:\w+ ){0,3}(?:information|mention|answer|details?)\b"
    r"|\b(?:cannot|unable to)\b[^.]{0,30}\b(?:answer|determin|provide)"
    r"|\bnot (?:\w+ )?(?:mentioned|provided|specified|stated|available|clear|possible)\b",
    re.IGNORECASE,
)
"""Says in English that the passages lack the answer."""


def cover_selected(answer: str, selected: Sequence[str]) -> float | None:
    """Return the share of the selected sentences that an answer covers; None without any."""
    words = set(lower_words(answer))
    contents = [set(lower_words(each)) - EMPTY_WORDS for each in selected]
    return sum(2 * len(each & words) >= len(each) for each in contents) / len(contents) if contents else None


def describe(episode: Episode, given: bool, question: Mapping[str, Any]) -> Row:
    """Return the numbers of one answer."""
    selected = question["selected_sentences"] if question["answerable"] else ()
    short = episode.short_answer or ""
    cited = choose_citations(question["question"], short, episode.read_passages)
    return {
        "id": question["id"],
        "answerable": question["answerable"],
        "given": given,
        "probability": episode.answerability,
        "kept": len(episode.sentences),
        "written": len(episode.sentences) + episode.left_out,
        "short_held": bool(cited) and cited[-1].role is not CitationRole.RELATED,
        "coverage": cover_selected(episode.answer or "", selected),
        "coverage_short": cover_selected(short, selected),
        "says_nothing": bool(_SAYS_NOTHING.search(episode.answer or "")),
        "words": len((episode.answer or "").split()),
        "words_short": len(short.split()),
    }


def describe_peer(told: Mapping[str, Any], question: Mapping[str, Any], passages: Mapping[str, Passage]) -> Row:
    """Return the same numbers of what LlamaIndex answered."""
    answer = told["answer"]
    selected = question["selected_sentences"] if question["answerable"] else ()
    sources = [passages[each] for each in told["sources"]]
    writer = AnswerWriter(question["question"], "", sources, None, split_written(answer))
    return {
        "id": question["id"],
        "answerable": question["answerable"],
        "says_nothing": bool(_SAYS_NOTHING.search(answer)),
        "kept": len(writer.sentences),
        "written": len(writer.sentences) + writer.left_out,
        "coverage": cover_selected(answer, selected),
        "words": len(answer.split()),
    }


def print_drawn(told: Sequence[tuple[Row, Episode]], n: int) -> None:
    """Print sentences that people would get, with what they cite."""
    shown = [(row["id"], place, episode) for row, episode in told if row["given"] for place in range(row["kept"])]
    for name, place, episode in sorted(random.Random(0).sample(shown, n), key=lambda one: one[:2]):
        sentence = episode.sentences[place]
        print(f"\n{name} {place} | {episode.question.text} | {episode.short_answer}\n  {sentence.text}")
        for at, quote in enumerate(episode.citations):
            print(f"    {'cites' if at in sentence.cites else 'beside'}: [{quote.title}] {quote.quote}")


async def measure(
    data: Path, out: Path, n: int | None, told_by_peer: Sequence[Mapping[str, Any]], read: int, texts: Path | None
) -> None:
    """Ask, and write the rows."""
    asker = Asker(data)
    rows: list[Row] = []
    told: list[tuple[Row, Episode]] = []
    questions = take_turns([*read_lines(data / "questions.jsonl.gz")], "answerable")
    by_id = {each["id"]: each for each in questions}
    peers = [describe_peer(one, by_id[one["question_id"]], asker.passages) for one in told_by_peer]
    for question in questions[:n]:
        usual = await asker.ask(question["question"])
        given = usual.answer is not None
        episode = await asker.ask(question["question"], always=True)
        rows.append(describe(episode, given, question) | {"unsupported": usual.reason == "abstain-unsupported"})
        told.append((rows[-1], episode))
        append_line(texts, {"gold": question, "given": given} | episode.model_dump(mode="json"))
        if not read:
            write_rows(out, asker.model, rows, llamaindex=peers)
    if read:
        print_drawn(told, read)
    await asker.always.aclose()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, help="so many questions; all by default")
    parser.add_argument("--peer", type=Path, help="the answers of LlamaIndex")
    parser.add_argument("--read", type=int, default=0, help="print so many sentences, and write nothing")
    parser.add_argument("--texts", type=Path, help="also append what was asked and answered to this file")
    given = parser.parse_args()
    peer = [*read_lines(given.peer)] if given.peer else []
    asyncio.run(measure(given.data, given.out, given.n, peer, given.read, given.texts))


if __name__ == "__main__":
    main()
