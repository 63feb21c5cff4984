"""Write the tables of the pages about follow-up questions and whole answers, from the committed rows.

    python -m benchmarks.answer_tables

A table stands on a page between a mark with its name and an end mark. A test compares the pages with the files.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.report.table import Table
from benchmarks.asked import Row, estimate, estimate_share

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PAGES = tuple(RESULTS / name for name in ("conversations.md", "whole_answers.md"))
_MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_CLASSES = ("ANSWERABLE", "PARTIAL", "UNANSWERABLE", "UNDERSPECIFIED")
_SHARES = frozenset(("given", "exact"))
_LANGUAGES = {"en": "English", "de": "German", "zh": "Chinese", "ar": "Arabic", "ru": "Russian", "es": "Spanish"}


def fill(page: str) -> str:
    """Return a page with its tables made anew."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", page)


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def _make(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    table = Table.of_texts("table", "", headings, [tuple(map(str, row)) for row in rows]).to_markdown()
    return table.replace("| ", "|").replace(" |", "|")


def _write(found: Sequence[float]) -> str:
    value, low, high = found
    return f"{value:.2f} ({low:.2f} to {high:.2f})"


def wilson(hits: float, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share, which is not empty where all or none are hits."""
    z, share = 1.96, hits / n
    middle, half = share + z * z / (2 * n), z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def _mean(rows: Sequence[Row], name: str) -> str:
    values = [float(row[name]) for row in rows if row[name] is not None]
    if name in _SHARES and values:
        return _write((sum(values) / len(values), *wilson(sum(values), len(values))))
    return _write(estimate(values)) if values else "-"


def _supported(rows: Sequence[Row]) -> str:
    return _write(estimate_share([(row["kept"], row["written"]) for row in rows])) if rows else "-"


def _tasks() -> list[Row]:
    return list(_read("conversations.json")["rows"])


def _recall() -> str:
    rows = [row for row in _tasks() if "rewritten" in row]
    groups = {
        "all follow-ups": rows,
        "stands alone by the rule": [row for row in rows if row["stands_alone"]],
        "to be rewritten by the rule": [row for row in rows if not row["stands_alone"]],
    }
    headings = ("follow-ups", "n", "as typed", "all user turns in front", "rewritten", "rewritten less typed")
    told = []
    for name, group in groups.items():
        gains = [row["rewritten"] - row["typed"] for row in group]
        told.append((name, len(group), *(_mean(group, form) for form in ("typed", "history", "rewritten"))))
        told[-1] = (*told[-1], _write(estimate(gains)))
    own = [row["by_rule"] for row in rows]
    gains = [row["by_rule"] - row["typed"] for row in rows]
    name = "all, rewritten where the rule says so"
    told.append((name, len(rows), "", "", _write(estimate(own)), _write(estimate(gains))))
    return _make(headings, told)


def _classes() -> str:
    rows = [row for row in _tasks() if "given" in row]
    told = []
    for name in _CLASSES:
        group = [row for row in rows if row["answerability"] == name]
        given = [row for row in group if row["given"]]
        back = sum(row["asked_back"] for row in group)
        written = sum(row["written"] for row in given)
        lost = sum(row["unsupported"] for row in group)
        told.append((name.lower(), len(group), _mean(group, "given"), back, lost, written, _supported(given)))
    columns = ("class", "n", "answered", "asked back", "declined, no sentence supported")
    return _make((*columns, "sentences of answers", "supported, and so shown"), told)


def _whole() -> Mapping[str, list[Row]]:
    return {"ours": _read("whole_answers.json")["rows"], "peer": _read("whole_answers.json")["llamaindex"]}


def _styles() -> str:
    rows = _whole()["ours"]
    given = [row for row in rows if row["given"]]
    answerable = [row for row in rows if row["answerable"]]
    told: list[tuple[Any, ...]] = []
    for name, group in (("answers that people get", given), ("all answers, also the declined ones", rows)):
        told.append((f"sentences supported: {name}", sum(row["written"] for row in group), _supported(group), ""))
    for name, group in (("answers that people get", [row for row in given if row["answerable"]]), ("all", answerable)):
        kinds = ("coverage", "coverage_short")
        told.append((f"selected sentences covered: {name}", len(group), *(_mean(group, kind) for kind in kinds)))
    told.append(("words", len(given), _mean(given, "words"), _mean(given, "words_short")))
    for name, group in (("answerable", answerable), ("unanswerable", [row for row in rows if not row["answerable"]])):
        short = [row | {"given": row["given"] or row["unsupported"]} for row in group]
        told.append((f"{name}, answered", len(group), _mean(group, "given"), _mean(short, "given")))
    return _make(("", "n", "`sentence`", "`short`"), told)


def _peer() -> str:
    peer = {row["id"]: row for row in _whole()["peer"]}
    own = [row for row in _whole()["ours"] if row["id"] in peer]
    if not own:
        return "Not measured yet: the machine had no time left for it."
    other = [peer[row["id"]] | {"given": not peer[row["id"]]["says_nothing"]} for row in own]
    told: list[tuple[Any, ...]] = []
    for name, kind in (("answerable", True), ("unanswerable", False)):
        sides = [[row for row in side if row["answerable"] is kind] for side in (own, other)]
        told.append((f"{name}, answered", len(sides[0]), *(_mean(side, "given") for side in sides)))
    sides = [[row for row in side if row["given"]] for side in (own, other)]
    sentences = "/".join(str(sum(row["written"] for row in side)) for side in sides)
    told.append(("written sentences supported, of given answers", sentences, *map(_supported, sides)))
    sides = [[row for row in side if row["answerable"]] for side in (own, other)]
    covered = [estimate([row["coverage"] if row["given"] else 0.0 for row in side]) for side in sides]
    told.append(("selected sentences covered, a declined answer covers none", len(sides[0]), *map(_write, covered)))
    told.append(("words of an answer", len(own), *(_mean(side, "words") for side in (own, other))))
    return _make(("", "n", "BeliefRAG, `sentence`", "LlamaIndex"), told)


def _by_hand() -> str:
    with (RESULTS / "whole_answers_read.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    verdicts = sorted({row["verdict"] for row in rows}, key=("supported", "partly", "not").index)
    told = [(one, *_count(rows, one)) for one in verdicts]
    return _make(("verdict", "sentences", "share"), told)


def _count(rows: Sequence[Mapping[str, str]], verdict: str) -> tuple[int, str]:
    hits = sum(row["verdict"] == verdict for row in rows)
    return hits, _write((hits / len(rows), *wilson(hits, len(rows))))


def _languages() -> str:
    found = _read("languages.json")["found"]
    rows = _read("language_answers.json")["rows"]
    told = []
    for language in dict.fromkeys(row["language"] for row in rows):
        own = [row for row in rows if row["language"] == language]
        share = found[f"xquad_{language}"]["linked, own"]
        given = [row for row in own if row["given"]]
        named = [row for row in given if row["written_in"]]
        told.append((
            _LANGUAGES[language],
            f"{share['value']:.2f} ({share['low']:.2f} to {share['high']:.2f})",
            len(own),
            _mean(own, "f1"),
            _mean(own, "exact"),
            _mean(own, "given"),
            _mean(given, "f1"),
            f"{sum(row['written_in'] == language for row in named)} of {len(named)}",
            _supported(given),
        ))  # fmt: skip
    headings = ("language", "paragraph among five", "n", "F1", "exact", "answered", "F1 of these")
    return _make((*headings, "in the language of the question", "sentences supported"), told)


TABLES: Mapping[str, Callable[[], str]] = {
    "recall": _recall,
    "classes": _classes,
    "styles": _styles,
    "peer": _peer,
    "by_hand": _by_hand,
    "languages": _languages,
}


def main() -> None:
    """Write the tables."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
