"""Makes the runs of the comparison, and writes its page from them.

    python -m benchmarks.decide run linked_packed --n 60 --out runs
    python -m benchmarks.decide report --out runs --page docs/results/decide.md --json docs/results/decide.json
    python -m benchmarks.decide replay --replies docs/results/decide_replies.jsonl.gz --out replayed

A run that is stopped goes on where it was. `replay` makes the same episodes from committed replies, without a model; it
needs the data files. It keeps its replies in the cache folder that BELIEFRAG_CACHE_DIR names.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from beliefrag.models.reply_store import ReplyStore, import_lines
from beliefrag.paths import cache_dir
from benchmarks.decide.runs import RUNS, make_run
from benchmarks.decide.tables import collect_numbers, write_episodes, write_page


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("name", choices=RUNS)
    running.add_argument("--n", type=int, default=60, help="questions of each set")
    running.add_argument("--data", nargs="*", default=[], help="some of the sets, by name")
    reporting = commands.add_parser("report")
    reporting.add_argument("--page", type=Path, help="a page whose last part is written anew")
    reporting.add_argument("--json", type=Path)
    reporting.add_argument("--episodes", type=Path, help="a table of all episodes, without texts")
    replaying = commands.add_parser("replay")
    replaying.add_argument("--replies", type=Path, required=True)
    replaying.add_argument("--names", nargs="*", default=["linked_packed"])
    replaying.add_argument("--n", type=int, default=60)
    replaying.add_argument("--data", nargs="*", default=[])
    for command in (running, reporting, replaying):
        command.add_argument("--out", type=Path, required=True, help="the folder of all runs")
    given = parser.parse_args()
    if given.command == "run":
        print(make_run(RUNS[given.name], given.n, given.out, datasets=given.data))
    elif given.command == "replay":
        place = cache_dir() / "replies.sqlite"
        place.parent.mkdir(parents=True, exist_ok=True)
        with ReplyStore(place) as store, gzip.open(given.replies, "rb") as lines:
            print(import_lines(lines, store))
        for name in given.names:
            print(make_run(RUNS[name], given.n, given.out, datasets=given.data, replay=True))
    else:
        numbers = collect_numbers(given.out)
        if given.json:
            given.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        if given.episodes:
            write_episodes(given.out, given.episodes)
        write_page(numbers, given.page)


if __name__ == "__main__":
    main()
