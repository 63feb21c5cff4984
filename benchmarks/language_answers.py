"""Measure answers in several languages: the same questions of XQuAD, over the paragraphs of each language.

    python -m benchmarks.language_answers --data DIR --out docs/results/language_answers.json --n 40

F1 and exact match compare the short answer with the gold one, also where it would be declined: of words, and of
characters in Chinese and Thai; English articles do not count. What people get is measured as in `whole_answers`: in
sentences, where the answer is given. Questions come in a fixed order, the same ones in every language; replies are kept
in the cache, and a row is written as soon as it is known: the same command resumes.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from beliefrag.answering.packing import lower_words
from beliefrag.retrieval.languages import detect_language
from benchmarks.asked import Asker, Row, append_line, read_lines, take_turns, write_rows

LANGUAGES = ("en", "de", "zh", "ar")
_ARTICLES = frozenset(("a", "an", "the"))


def score_words(answer: str, golds: Sequence[str]) -> tuple[float, bool]:
    """Return F1 and exact match with the nearest gold answer."""
    own = [word for word in lower_words(answer) if word not in _ARTICLES]
    best = (0.0, False)
    for gold in golds:
        right = [word for word in lower_words(gold) if word not in _ARTICLES]
        same = (Counter(own) & Counter(right)).total()
        best = max(best, (2 * same / (len(own) + len(right)) if same else 0.0, own == right))
    return best


async def measure(data: Path, out: Path, n: int, languages: Sequence[str], texts: Path | None) -> None:
    """Ask, and write the rows."""
    rows: list[Row] = []
    for language in languages:
        folder = data / f"xquad_{language}"
        asker = Asker(folder)
        known = {one["parallel"]: one for one in read_lines(folder / "questions.jsonl.gz")}
        for each in take_turns([{"id": parallel} for parallel in known])[:n]:
            question = known[each["id"]]
            episode = await asker.ask(question["question"])
            short = episode.short_answer or episode.best_guess or ""
            f1, exact = score_words(short, question["answers"])
            found = asker.find(question["question"], 5)
            row: Row = {"id": question["id"], "language": language, "f1": f1, "exact": exact}
            row |= {"found": bool(set(found) & set(question["supporting"])), "given": episode.answer is not None}
            row |= {"probability": episode.answerability, "kept": len(episode.sentences)}
            row |= {"written": len(episode.sentences) + episode.left_out}
            # A few words seldom tell their language.
            row["written_in"] = detect_language(episode.answer or "") if episode.sentences else None
            rows.append(row)
            write_rows(out, asker.model, rows)
            append_line(texts, {"gold": question, "given": row["given"]} | episode.model_dump(mode="json"))
        await asker.always.aclose()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--languages", nargs="+", default=LANGUAGES)
    parser.add_argument("--texts", type=Path, help="also append what was asked and answered to this file")
    given = parser.parse_args()
    asyncio.run(measure(given.data, given.out, given.n, given.languages, given.texts))


if __name__ == "__main__":
    main()
