"""Writes docs/results/find.json and find.md from ranked passages.

    python -m benchmarks.find.tables RANKED_FOLDER --json docs/results/find.json --page docs/results/find.md

Each file of the folder is one column. The page has the columns that matter, find.json has all. Intervals are percentile
intervals of the project's bootstrap over questions.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from beliefrag.bench.questions import LabelledQuestion
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.statistics import Estimate, compare, mean_estimate
from benchmarks.find.measures import (
    Ranking,
    answer_in_packed,
    answer_in_whole,
    asks_yes_or_no,
    found_among,
    read_ranking,
    recall_among,
)
from benchmarks.find.mixed_corpus import MULTI_HOP, SETS, MixedCorpus, is_for_fitting, load_mixed_corpus

MARK = "<!-- What follows was written by benchmarks/find/tables.py. -->"
WORDS = (80, 120, 160, 240, 320, 480, 640)
FIRST = 5
HITS = 10
"""Passages that evidence is made of, whole or packed."""
CURVE_QUESTIONS = 200
SHOWN = 160
"""Words of the packing curve that the page has."""
TITLES = {
    "bm25": "BM25",
    "dense": "dense (MiniLM)",
    "hybrid": "hybrid of BM25 and dense",
    "linked": "linked (as shipped)",
}
NAMES = {
    "hotpotqa": "HotpotQA",
    "2wikimultihopqa": "2Wiki",
    "musique": "MuSiQue",
    "nq": "NQ",
    "popqa": "PopQA",
    "triviaqa": "TriviaQA",
}


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--packed", default="linked", help="the column whose passages are packed, beside BM25's")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True)
    chosen = parser.parse_args()
    mixed = load_mixed_corpus()
    rankings = {path.stem: read_ranking(path) for path in sorted(chosen.folder.glob("*.json"))}
    record: dict[str, Any] = {
        "passages": len(mixed.passages),
        "parts": {part: measure_part(part, rankings, mixed) for part in ("choosing", "held out", "not fitted on")},
        "packing": {
            "linked column": chosen.packed,
            "curve": {name: dict(curve(name, rankings, chosen.packed, mixed)) for name in SETS},
        },
    }
    chosen.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    # What stands before the mark is written by hand, and stays.
    before = chosen.page.read_text("utf-8").partition(MARK)[0] if chosen.page.exists() else ""
    chosen.page.write_text(f"{before}{MARK}\n{write_page(record)}", encoding="utf-8")


def questions_of(
    part: str, dataset: str, rankings: Mapping[str, Ranking], mixed: MixedCorpus
) -> list[LabelledQuestion]:
    """Return the questions of a part that every column has."""
    shared = set.intersection(*(set(ranking.ranked[dataset]) for ranking in rankings.values()))
    wanted = {"choosing": {Partition.XSEL}, "held out": {Partition.XHOLD}, "not fitted on": set(Partition)}[part]
    return [
        each
        for each in mixed.questions[dataset]
        if each.id in shared and not is_for_fitting(dataset, each) and partition(each.id) in wanted
    ]


def measure_part(part: str, rankings: Mapping[str, Ranking], mixed: MixedCorpus) -> dict[str, Any]:
    """Return all columns on one part of the questions, with paired differences to BM25."""
    result: dict[str, Any] = {}
    for dataset in SETS:
        questions = questions_of(part, dataset, rankings, mixed)
        found = {
            column: {each.id: found_among(ranking, dataset, each, mixed, FIRST) for each in questions}
            for column, ranking in rankings.items()
        }
        result[dataset] = {
            column: {
                "found": _plain(mean_estimate(values)),
                **(
                    {"recall": _plain(_mean_recall(rankings[column], dataset, questions))}
                    if dataset in MULTI_HOP
                    else {}
                ),
                "minus_bm25": _plain(_difference(values, found["bm25"])),
            }
            for column, values in found.items()
        }
    return result


def curve(dataset: str, rankings: Mapping[str, Ranking], linked: str, mixed: MixedCorpus) -> Iterator[tuple[str, Any]]:
    """Yield the share of questions whose answer stands in the evidence, by words; none of them chose a setting."""
    questions = [
        each
        for each in questions_of("not fitted on", dataset, rankings, mixed)
        if partition(each.id) is not Partition.XSEL and not asks_yes_or_no(each)
    ][:CURVE_QUESTIONS]
    yield "questions", len(questions)
    ways: dict[str, Callable[..., float]] = {"whole": answer_in_whole, "packed": answer_in_packed}
    for column in ("bm25", linked):
        for way, measure in ways.items():
            hits = rankings[column].ranked[dataset]
            yield (
                f"{'linked' if column == linked else column} {way}",
                {
                    str(words): _plain(
                        mean_estimate(
                            {each.id: measure(hits[each.id][:HITS], each, mixed, words) for each in questions}
                        )
                    )
                    for words in WORDS
                },
            )


def write_page(record: Mapping[str, Any]) -> str:
    """Return the tables of the page: the columns on all questions that nothing was fitted on, and packing."""
    parts, curves = record["parts"], record["packing"]["curve"]
    found = parts["not fitted on"]
    head = ["||" + "|".join(NAMES[name] for name in SETS) + "|", "|---" * (len(SETS) + 1) + "|"]
    lines = ["", "## All questions that nothing was fitted on", "", *head]
    lines.append("|questions|" + "|".join(str(found[name]["bm25"]["found"]["questions"]) for name in SETS) + "|")
    columns = sorted(set(found["nq"]) & set(TITLES), key=list(TITLES).index)
    lines += [_line(TITLES[column], (_cell(found[name][column]["found"]) for name in SETS)) for column in columns]
    held_out = (_cell(parts["held out"][name]["linked"]["found"]) for name in SETS)
    lines += [_line("linked, xhold alone", held_out), "", f"## Answer in {SHOWN} words of evidence", "", *head]
    for way in (way for way in curves["nq"] if way != "questions"):
        lines.append(_line(way, (f"{curves[name][way][str(SHOWN)]['value']:.3f}" for name in SETS)))
    return "\n".join([*lines, ""])


def _line(title: str, cells: Iterable[str]) -> str:
    return "|".join(["", title, *cells, ""])


def _mean_recall(ranking: Ranking, dataset: str, questions: list[LabelledQuestion]) -> Estimate:
    return mean_estimate({each.id: recall_among(ranking, dataset, each, FIRST) for each in questions})


def _difference(first: Mapping[str, float], second: Mapping[str, float]) -> Estimate:
    return compare({"found": first}, {"found": second}).measures["found"].difference


def _plain(estimate: Estimate) -> dict[str, Any]:
    held = asdict(estimate)
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in held.items()
        if value is not None
    }


def _cell(held: Mapping[str, Any]) -> str:
    return f"{held['value']:.3f} [{held['low']:.3f}, {held['high']:.3f}]"


if __name__ == "__main__":
    main()
