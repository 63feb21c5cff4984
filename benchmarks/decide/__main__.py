"""Make the runs of the comparison, write its page from them, and replay them from committed replies.

    python -m benchmarks.decide run linked_packed --n 60 --out runs
    python -m benchmarks.decide report --out runs --page docs/results/decide.md --json docs/results/decide.json \
        --episodes docs/results/decide_episodes.csv --figure docs/results/decide_risk.png
    python -m benchmarks.decide replies --out runs --file docs/results/decide_replies.jsonl.gz
    python -m benchmarks.decide replay --replies docs/results/decide_replies.jsonl.gz \
        --like docs/results/decide_episodes.csv --out replayed
    python -m benchmarks.decide episodes runs/val --file docs/results/val_episodes.csv

A run that is stopped goes on where it was. `report` writes the table of all episodes first and works all numbers out
from it; `report --from CSV` needs no runs. `replay` makes the same episodes from committed replies, without a model,
and fails unless each is what the table says; it needs the data files. Replies are kept in, and taken from, the cache
folder that BELIEFRAG_CACHE_DIR names.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from beliefrag.errors import BeliefRAGError
from beliefrag.models.cache import import_replies
from benchmarks.decide.episodes import EpisodeRow, read_rows, read_run_rows, write_rows
from benchmarks.decide.numbers import collect_numbers
from benchmarks.decide.probability import read_told
from benchmarks.decide.replay import compare_rows, replay_rows, take_first
from benchmarks.decide.replies import find_used_replies, write_replies
from benchmarks.decide.risk_curves import draw_risk_curves
from benchmarks.decide.runs import RUNS, make_run
from benchmarks.decide.tables import format_tables, write_page
from benchmarks.find.mixed_corpus import data_folder

__all__ = ["main"]

_SHOWN = 20
"""Episodes that are named where a replay differs."""


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit code."""
    given = _make_parser().parse_args(words)
    try:
        code: int = given.do(given)
    except BeliefRAGError as error:
        print(error, file=sys.stderr)
        return 1
    return code


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)

    running = commands.add_parser("run", help="makes a run, or goes on with it")
    running.add_argument("name", choices=RUNS)
    running.add_argument("--n", type=int, default=60, help="questions of each set")
    running.add_argument("--data", nargs="*", default=[], help="some of the sets, by name")
    running.add_argument("--methods", nargs="*", default=[], help="some of the methods of the run")
    running.set_defaults(do=_run)

    reporting = commands.add_parser("report", help="writes page, numbers, table of episodes and figure")
    reporting.add_argument("--from", dest="table", type=Path, help="a table of episodes, in place of runs")
    reporting.add_argument("--page", type=Path, help="a page whose last part is written anew")
    reporting.add_argument("--json", type=Path)
    reporting.add_argument("--episodes", type=Path, help="a table of all episodes, without texts")
    reporting.add_argument("--figure", type=Path, help="the curves of risk and coverage, such as decide_risk.png")
    reporting.set_defaults(do=_report)

    replaying = commands.add_parser("replay", help="makes committed episodes again, and compares them")
    replaying.add_argument("--replies", type=Path, required=True)
    replaying.add_argument("--like", type=Path, required=True, help="the table of the committed episodes")
    replaying.add_argument("--names", nargs="*", choices=RUNS, default=[], help="some of its runs")
    replaying.add_argument("--data", nargs="*", default=[], help="some of its sets, by name")
    replaying.add_argument("--first", type=int, help="some of the questions of each set: the first so many")
    replaying.set_defaults(do=_replay)

    exporting = commands.add_parser("replies", help="writes the replies that runs use")
    exporting.add_argument("--file", type=Path, required=True)
    exporting.add_argument("--also", type=Path, nargs="*", default=[], help="folders of further runs")
    exporting.add_argument("--data", type=Path, nargs="*", default=[], help="further folders with sets of these runs")
    exporting.set_defaults(do=_export_replies)

    for command, needed in ((running, True), (reporting, False), (replaying, True), (exporting, True)):
        command.add_argument("--out", type=Path, required=needed, help="the folder of all runs")

    listing = commands.add_parser("episodes", help="writes the episodes of any runs as a table without texts")
    listing.add_argument("runs", type=Path, nargs="+", help="folders of runs")
    listing.add_argument("--file", type=Path, required=True)
    listing.set_defaults(do=_write_episodes)
    return parser


def _run(given: argparse.Namespace) -> int:
    print(make_run(RUNS[given.name], given.n, given.out, datasets=given.data, methods=given.methods))
    return 0


def _find_runs(folder: Path) -> list[Path]:
    return [folder / name for name in RUNS if (folder / name / "run.json").exists()]


def _read_runs(folders: Sequence[Path]) -> list[EpisodeRow]:
    return [row for folder in folders for row in read_run_rows(folder)]


def _report(given: argparse.Namespace) -> int:
    if (given.table is None) == (given.out is None):
        print("Name the folder of the runs with --out, or a table of episodes with --from.", file=sys.stderr)
        return 1
    rows = read_rows(given.table) if given.table else _read_runs(_find_runs(given.out))
    numbers = collect_numbers(rows)
    print(format_tables(numbers))
    if given.episodes:
        write_rows(rows, given.episodes)
    if given.json:
        given.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    if given.page:
        write_page(numbers, given.page)
    if given.figure:
        draw_risk_curves(read_told(rows), given.figure)
    return 0


def _replay(given: argparse.Namespace) -> int:
    wanted = [
        row
        for row in read_rows(given.like)
        if row.run in (given.names or RUNS) and (not given.data or row.dataset in given.data)
    ]
    if given.first:
        wanted = take_first(wanted, given.first)
    if not wanted:
        print(f"{given.like} has no such episodes.", file=sys.stderr)
        return 1
    counts = import_replies(given.replies)
    print(f"{counts.added:,} replies added to the cache, {counts.known + counts.different:,} were there")
    if counts.different:
        print(f"The cache has other texts for {counts.different:,} of them: use an empty BELIEFRAG_CACHE_DIR.")
    wrong = list(compare_rows(wanted, replay_rows(wanted, given.out)))
    print(f"{len(wanted) - len(wrong):,} of {len(wanted):,} episodes are equal to {given.like}")
    for line in wrong[:_SHOWN]:
        print(line, file=sys.stderr)
    if len(wrong) > _SHOWN:
        print(f"and {len(wrong) - _SHOWN:,} more", file=sys.stderr)
    return 1 if wrong else 0


def _export_replies(given: argparse.Namespace) -> int:
    used = find_used_replies([*_find_runs(given.out), *given.also], [*given.data, data_folder()])
    for name in used.missing[:_SHOWN]:
        print(f"{name}: a reply is not in the cache", file=sys.stderr)
    if used.missing:
        print(f"{len(used.missing):,} episodes cannot be replayed; nothing is written.", file=sys.stderr)
        return 1
    write_replies(used.replies, given.file)
    print(f"{len(used.replies):,} replies in {given.file}, {given.file.stat().st_size:,} bytes")
    return 0


def _write_episodes(given: argparse.Namespace) -> int:
    rows = _read_runs(given.runs)
    write_rows(rows, given.file)
    print(f"{len(rows):,} episodes in {given.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
