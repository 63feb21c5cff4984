"""What the prompts of the other methods bring from a model, by kind of failure, on train questions.

    python -m benchmarks.judge_prompts --data ../shared/data/hotpotqa --questions 20 --out FOLDER [--json FILE]

Runs IRCoT, RL-Search, Adaptive-RAG and Self-RAG* and sorts every reply of their own prompts. Replies are cached, and a
run that is stopped goes on where it was. The file gets the kinds of reply question by question, without texts, beside
those of other folders that it already holds.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.methods import reasoning
from beliefrag.record import Episode, ModelCall
from beliefrag.runs.run_files import read_episode_at, read_lines
from beliefrag.settings import DEFAULT_MODEL, load_settings
from benchmarks.correction_steps import repeats_a_search

METHODS = ("ircot", "rl_search", "adaptive_rag", "self_rag")
PURPOSES = ("reasoner", "dialogue", "router", "trigger")


def main() -> None:
    """Run the methods and print how their replies turned out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=METHODS, help="also with options: NAME:key=value")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--examples", type=int, default=2, help="replies to print of each kind")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--json", type=Path, help="the file for the kinds of reply of each question")
    given = parser.parse_args()
    spec = bench.RunSpec(
        data=(given.data,), methods=tuple(given.methods), n=given.questions, splits=("train",), judge=False
    )
    bench.run(spec, out=given.out, settings=load_settings({"model": given.model}).settings)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    replies: dict[tuple[str, str], list[str]] = defaultdict(list)
    judged: list[dict[str, Any]] = []
    for line in read_lines(given.out):
        if not line.summary.finished:
            continue
        episode = read_episode_at(given.out, line.offset)
        found = sort_replies(episode)
        judged.append(
            {
                "question": episode.key.question_id,
                "replies": [kind for _, kind, _ in found],
                "searches_again": repeats_a_search(episode),
            }
        )
        for purpose, kind, reply in found:
            kinds[purpose][kind] += 1
            replies[purpose, kind].append(reply)
    if given.json:
        known = json.loads(given.json.read_text(encoding="utf-8")) if given.json.exists() else {}
        known[given.out.name] = sorted(judged, key=lambda each: each["question"])
        given.json.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    for purpose, counts in kinds.items():
        for kind, count in counts.most_common():
            print(f"{purpose}: {kind}: {count}")
            for reply in replies[purpose, kind][: given.examples]:
                print(f"    {reply[:200]!r}")


def sort_replies(episode: Episode) -> list[tuple[str, str, str]]:
    """Purpose, kind and text of each reply to a prompt of the method's own."""
    earlier: dict[str, list[str]] = defaultdict(list)
    found = []
    for call in episode.calls:
        if call.purpose in PURPOSES:
            found.append((call.purpose, kind_of(call, earlier[call.purpose]), call.reply))
            earlier[call.purpose].append(call.reply)
    return found


def kind_of(call: ModelCall, earlier: list[str]) -> str:
    """Return what the reply is, or what is wrong with it."""
    if call.repairs.get("asked_again") or call.repairs.get("unusable"):
        return "cannot be read"
    if call.purpose in ("reasoner", "dialogue") and reasoning.repeats(call.reply, earlier):
        return "repeats an earlier reply"
    if call.purpose == "reasoner":
        if reasoning.concludes(call.reply):
            return "comes to an answer" if earlier else "comes to an answer at once"
        return "states something"
    if call.purpose == "dialogue":
        step = re.search(r"<(search|answer)>", call.reply)
        return {"search": "searches", "answer": "answers"}[step.group(1)] if step else "no tag"
    return call.reply.strip().split()[0].strip(".,:*\"'").lower() if call.reply.strip() else "empty"


if __name__ == "__main__":
    main()
