"""Writes docs/results/other_systems.md: what retrieval finds and costs, beside other systems.

    python -m benchmarks.find.other_systems

The numbers come from leave_one_out.json, find.json, linked_cost.json and other_systems.json. What
`benchmarks.find.leave_one_out` adds for another retriever, or for what another system ranked, is one more row.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from beliefrag.report.table import format_number
from beliefrag.runs.statistics import Estimate, mean_estimate
from benchmarks.find.mixed_corpus import MULTI_HOP
from benchmarks.find.tables import NAMES, TITLES

RESULTS = Path(__file__).parents[2] / "docs" / "results"
OWN_TITLES = {
    "bm25": "BM25",
    "dense:weights=gte-small": "dense (gte-small)",
    "hybrid:weights=gte-small": "hybrid of BM25 and gte-small",
    "LinearRAG": "LinearRAG (MiniLM), default settings",
    "LinearRAG, settings of the set": "LinearRAG, settings of the set",
    "LinearRAG, settings of the set, neighbours linked": "LinearRAG, settings of the set, neighbours linked",
    "linked, as shipped": "linked, as shipped",
    "linked, fitted on the other sets": "linked, fitted on the other sets",
}
MARK = "<!-- What follows was written by benchmarks/find/other_systems.py. -->\n"


def main() -> None:
    """Run it."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    page = RESULTS / "other_systems.md"
    page.write_text(page.read_text("utf-8").partition(MARK)[0] + MARK + write_tables(), encoding="utf-8")


def write_tables() -> str:
    """Return both tables: each set in its own corpus, and all sets in one."""
    head = [*(NAMES[name] for name in MULTI_HOP), "indexing", "a search"]
    lines = ["", "## Each set in its own corpus", "", _row("", head), _row("---", ["---"] * len(head))]
    lines += [*_own_corpora(), "", "## One corpus of all sets", ""]
    lines += [_row("", head), _row("---", ["---"] * len(head)), *_mixed_corpus(), ""]
    return "\n".join(lines)


def _own_corpora() -> Iterator[str]:
    held = _read("leave_one_out.json")
    found = {one: [held[name]["systems"].get(one) for name in MULTI_HOP] for one in OWN_TITLES}
    counts = [len(held[name]["systems"]["bm25"]["values"]["recall"]) for name in MULTI_HOP]
    sizes = [f"{n}; {held[name]['passages']:,}" for n, name in zip(counts, MULTI_HOP, strict=True)]
    yield _row("questions; passages", [*sizes, "", ""])
    for system, each in found.items():
        if not any(each):
            continue
        cells = [format_number(mean_estimate(one["values"]["recall"])) if one else "" for one in each]
        indexing = "; ".join(f"{_number(one['index_seconds'])}" if one else "-" for one in each)
        search = "; ".join(f"{_number(one['search_milliseconds'])}" if one else "-" for one in each)
        yield _row(OWN_TITLES[system], [*cells, f"{indexing} s", f"{search} ms"])
    theirs = _read("other_systems.json")["hipporag2"]
    sizes = [f"{theirs['questions'][name]:,}; {theirs['passages'][name]:,}" for name in MULTI_HOP]
    yield _row("*published with HippoRAG 2:* questions; passages", [*sizes, "", ""])
    for system, recall in theirs["recall"].items():
        yield _row(f"*published:* {system}", [*(f"{recall[name]:.3f}" for name in MULTI_HOP), *theirs["cost"][system]])


def _mixed_corpus() -> Iterator[str]:
    found, cost = _read("find.json"), _read("linked_cost.json")
    parts = found["parts"]["not fitted on"]
    vectors = found["passages"] * _read("other_systems.json")["dense"]["milliseconds_a_passage"] / 1000
    indexing = {
        "bm25": cost["indexing"]["bm25"]["processor"],
        "dense": vectors,
        "hybrid": vectors + cost["indexing"]["bm25"]["processor"],
        "linked": cost["indexing"]["linked"]["processor"],
    }
    searches = {"linked": f"{cost['search']['processor_p50_ms']} ms"}
    for system, title in TITLES.items():
        recall = (Estimate(*(parts[name][system]["recall"][e] for e in ("value", "low", "high"))) for name in MULTI_HOP)
        yield _row(title, [*map(format_number, recall), f"{indexing[system]:,.0f} s", searches.get(system, "")])


def _number(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1}f}"


def _row(title: str, cells: Iterable[str]) -> str:
    return "|".join(["", title, *cells, ""])


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


if __name__ == "__main__":
    main()
