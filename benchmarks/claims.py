"""The claims of docs/results/README.md: each number is worked out from committed files, and nothing else is claimed.

    python -m benchmarks.claims

It writes the table of the page anew. A new claim is one more entry of CLAIMS; a test compares the page with the files.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from beliefrag.calibration.quality import auc, brier
from beliefrag.report.table import Table, format_number
from beliefrag.runs.statistics import Estimate, compare_over_datasets, mean_estimate
from benchmarks.conflict_pairs import measure
from benchmarks.decide.episodes import EpisodeRow, read_rows
from benchmarks.decide.probability import ALL, read_told
from benchmarks.diagnostics import estimate_within, set_of
from benchmarks.find.mixed_corpus import MULTI_HOP

__all__ = ["CLAIMS", "PAGE", "Claim", "make_table", "write_page"]

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAGE = RESULTS / "README.md"
_BEGIN, _END = "<!-- claims -->\n", "<!-- end of claims -->\n"
_DECIDE = "python -m benchmarks.decide", "decide_episodes.csv"
_LEAN = ("linked_packed", "lean")
Side = tuple[str, str]
"""A run and a method in it."""
Numbers = tuple[str, str]
"""The number with its interval, and n."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, and how its number comes out of a file."""

    words: str
    number: Callable[[], Numbers]
    command: str
    file: str


@cache
def _rows() -> Mapping[Side, tuple[EpisodeRow, ...]]:
    """Return the finished episodes of the comparison, by run and method."""
    found: dict[Side, list[EpisodeRow]] = {}
    for row in read_rows(RESULTS / _DECIDE[1]):
        if row.finished:
            found.setdefault((row.run, row.method), []).append(row)
    return {side: tuple(rows) for side, rows in found.items()}


def _difference(one: Side, other: Side, sets: Sequence[str], *measures: str) -> Callable[[], Numbers]:
    """Compare two methods on the questions of these sets that both have."""

    def compute() -> Numbers:
        sides = [{(r.dataset, r.question): r for r in _rows()[side] if r.dataset in sets} for side in (one, other)]
        shared = sorted(sides[0].keys() & sides[1].keys())
        columns = [
            {
                s: {m: {q: float(getattr(side[d, q], m) or 0) for d, q in shared if d == s} for m in measures}
                for s in sets
            }
            for side in sides
        ]
        found = compare_over_datasets(*columns).measures
        forms = {"f1": ("", "+.3f"), "tokens": (" tokens", "+,.0f")}
        words = [f"{format_number(found[m].difference, forms[m][1])}{forms[m][0]}" for m in measures]
        return "; ".join(words), "/".join(str(sum(d == s for d, _ in shared)) for s in sets)

    return compute


def _recall(system: str) -> Callable[[], Numbers]:
    """Return the share of supporting passages among the first five, for each multi-hop set."""

    def compute() -> Numbers:
        held = _read("leave_one_out.json")
        values = [held[name]["systems"][system]["values"]["recall"] for name in MULTI_HOP]
        return "; ".join(format_number(mean_estimate(each)) for each in values), "/".join(str(len(v)) for v in values)

    return compute


def _probability() -> Numbers:
    told = read_told([row for rows in _rows().values() for row in rows])[ALL]
    scores = [told.estimate(lambda w, m=measure: m(told.lean, told.right, w)) for measure in (brier, auc)]  # type: ignore[misc]
    return f"Brier {format_number(scores[0])}; AUC {format_number(scores[1])}", str(len(told.right))


def _left_out() -> Numbers:
    with (RESULTS / "diagnostics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    told, right = (np.array([float(row[name]) for row in rows]) for name in ("left_out", "right"))
    found = estimate_within(told, right, np.array([set_of(row["dataset"]) for row in rows]))
    return format_number(Estimate(found["auc"], found["low"], found["high"]), ".2f"), f"{len(rows):,}"


def _conflict() -> Numbers:
    with (RESULTS / "conflict_pairs.csv").open(encoding="utf-8", newline="") as file:
        found = measure(list(csv.DictReader(file)))
    own = [found[name] for name in ("ramdocs", "rgb")]
    estimates = (Estimate(*(each["conflict"][name] for name in ("auc", "low", "high"))) for each in own)
    return "; ".join(format_number(each, ".2f") for each in estimates), "/".join(str(each["pairs"]) for each in own)


def _cost() -> Numbers:
    held = _read("linked_cost.json")
    ratio, search = held["indexing_ratio"]["processor"], held["search"]["processor_p50_ms"]
    builds, questions = held["repeats"], held["search"]["questions"]
    return f"{ratio:.2f} times bare tantivy; {search:.1f} ms", f"{builds} builds; {questions} searches"


def _kills() -> Numbers:
    held = _read("interrupted.json")
    equal = held["killed_equals_whole"] and held["killed_equals_replayed"]
    return f"{held['episodes'] if equal else 0} of {held['episodes']} episodes equal", f"{held['kills']} kills"


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


_FIND = "python -m benchmarks.find.leave_one_out", "leave_one_out.json"
CLAIMS = (
    Claim(
        "Linked retrieval with its ranker fitted on the other sets alone finds this share of the supporting passages "
        "among 5: HotpotQA; 2Wiki; MuSiQue (HippoRAG 2, as published: 0.963; 0.904; 0.747)",
        _recall("linked, fitted on the other sets"),
        *_FIND,
    ),
    Claim("The same of BM25", _recall("bm25"), *_FIND),
    Claim(
        "Lean has more F1 than Static with BM25 and whole passages: mean of the three multi-hop sets",
        _difference(_LEAN, ("bm25", "static"), MULTI_HOP, "f1"),
        *_DECIDE,
    ),
    Claim(
        "On the same sets lean has more F1 and fewer tokens than Iterative with BM25 and whole passages",
        _difference(_LEAN, ("bm25", "iterative"), MULTI_HOP, "f1", "tokens"),
        *_DECIDE,
    ),
    Claim(
        "The gain is retrieval and packing: against Static with the same of both no gain in F1 is shown",
        _difference(_LEAN, ("linked_packed", "static"), MULTI_HOP, "f1"),
        *_DECIDE,
    ),
    Claim(
        "Right and wrong answers are told apart on sets that lean's probability was not fitted on (13 sets, "
        "unanswerable questions among them): AUC within sets",
        _left_out,
        "python -m benchmarks.diagnostics",
        "diagnostics.csv",
    ),
    Claim("Lean's probability that its answer is right, on the six sets of the comparison", _probability, *_DECIDE),
    Claim(
        "The conflict that lean measures is larger for two documents with different answers than for two that agree "
        "(RAMDocs; RGB): AUC",
        _conflict,
        "python -m benchmarks.conflict_pairs",
        "conflict_pairs.csv",
    ),
    Claim(
        "Linked retrieval of 60,000 passages: indexing by processor time; a search at the median",
        _cost,
        "python -m benchmarks.linked_cost",
        "linked_cost.json",
    ),
    Claim(
        "A run that is killed at random moments and resumed holds what a run in one go holds",
        _kills,
        "python -m benchmarks.interrupted",
        "interrupted.json",
    ),
)


def make_table() -> str:
    """Return the table of all claims in Markdown."""
    rows = []
    for place, claim in enumerate(CLAIMS, 1):
        number, n = claim.number()
        rows.append((str(place), claim.words, number, n, f"`{claim.command}`", f"`{claim.file}`"))
    return Table.of_texts(
        "claims", "", ("", "claim", "number (95 % interval)", "n", "command", "file"), rows
    ).to_markdown()


def write_page() -> None:
    """Write the table into the page, between its two marks."""
    before, rest = PAGE.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    PAGE.write_text(f"{before}{_BEGIN}\n{make_table()}\n\n{_END}{after}", encoding="utf-8")


def main() -> None:
    """Run it."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write_page()


if __name__ == "__main__":
    main()
