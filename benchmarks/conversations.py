"""Measure follow-up questions: what they find as typed, rewritten and with the history in front, and how they end.

    python -m benchmarks.conversations --data DIR/mtrag_un --out docs/results/conversations.json --n 120 --rewrite 183 \
        --first DIR/nq ...

Evidence recall among the first five passages of linked retrieval, over the follow-ups of mtrag_un that have supporting
passages. The rule that saves the rewriting of a question that stands alone is measured beside it: where it is right,
the question as typed finds what the rewritten one does. `--n N` asks the embedded model N questions with their history,
those of each class in turn and in a fixed order, as people ask it: in sentences, declining what it is unsure of. Then
`--rewrite N` follow-ups are rewritten. Replies are kept in the cache, and a row is written as soon as it is known: the
same command resumes. Rows hold ids and numbers.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beliefrag.answering.conversation import bound_history, describe_history, find_unclear, stands_alone
from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.explanation import ask_back
from beliefrag.models.compose import Meter
from beliefrag.types import Question, Turn
from benchmarks.asked import Asker, Row, append_line, read_lines, take_turns, write_rows

DEPTH = 5


def read_turns(history: Sequence[Mapping[str, str]]) -> tuple[Turn, ...]:
    """Return the history of a task as turns."""
    turns: list[Turn] = []
    for said in history:
        if said["speaker"] == "user":
            turns.append(Turn(said["text"]))
        elif turns:
            turns[-1] = Turn(turns[-1].question, said["text"])
    return tuple(turns)


def describe(asker: Asker, task: Mapping[str, Any]) -> Row:
    """Return what is known of a task without asking the model."""
    question, turns = task["question"], read_turns(task["history"])
    row: Row = {"id": task["id"], "answerability": task["answerability"][0], "follow_up": bool(turns)}
    row["unclear"] = not turns and find_unclear(question) is not None
    if turns:
        row["stands_alone"] = stands_alone(question)
    if turns and task["supporting"]:
        front = " ".join([*(turn.question for turn in turns), question])
        row |= {"typed": recall(asker, question, task), "history": recall(asker, front, task)}
    return row


def recall(asker: Asker, query: str, task: Mapping[str, Any]) -> float:
    """Return the share of the supporting passages, of at most five, among the first five."""
    wanted = set(task["supporting"])
    return len(wanted & set(asker.find(query, DEPTH))) / min(DEPTH, len(wanted))


async def rewrite(asker: Asker, task: Mapping[str, Any]) -> str:
    """Return a follow-up as the model rewrites it."""
    harness = asker.usual.harness
    recorder = CallRecorder(lambda _: None, lambda *_: None)
    calls = ModelCalls(Meter(harness.model), harness.prompts, harness.verifier, recorder)
    history = describe_history(bound_history(read_turns(task["history"])))
    return await calls.stand_alone(Question(task["question"]), history)


async def measure(data: Path, out: Path, first: Sequence[Path], n: int, rewritten: int, texts: Path | None) -> None:
    """Ask, and write the rows."""
    asker = Asker(data)
    tasks = take_turns([*read_lines(data / "questions.jsonl.gz")])
    rows = {task["id"]: describe(asker, task) for task in tasks}
    declined = {}
    for folder in first:
        asked = [one["question"] for one in read_lines(folder / "questions.jsonl.gz")]
        declined[folder.name] = [sum(find_unclear(each) is not None for each in asked), len(asked)]

    def write() -> None:
        write_rows(out, asker.model, list(rows.values()), depth=DEPTH, first=declined)

    write()
    for task in take_turns(tasks, "answerability")[:n]:
        episode = await asker.ask(task["question"], read_turns(task["history"]))
        rows[task["id"]] |= {
            "given": episode.answer is not None,
            "asked_back": ask_back(episode) is not None,
            "probability": episode.answerability,
            "kept": len(episode.sentences),
            "written": len(episode.sentences) + episode.left_out,
            "unsupported": episode.reason == "abstain-unsupported",
        }
        write()
        append_line(texts, {"gold": task, "given": episode.answer is not None} | episode.model_dump(mode="json"))
    for task in [one for one in tasks if "typed" in rows[one["id"]]][:rewritten]:
        row = rows[task["id"]]
        row["rewritten"] = recall(asker, await rewrite(asker, task), task)
        row["by_rule"] = row["typed"] if row["stands_alone"] else row["rewritten"]
        write()
    await asker.always.aclose()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--n", type=int, default=0, help="ask so many questions")
    parser.add_argument("--rewrite", type=int, default=0, help="rewrite so many follow-ups")
    parser.add_argument("--first", type=Path, nargs="*", default=[], help="sets whose questions have no history")
    parser.add_argument("--texts", type=Path, help="also append what was asked and answered to this file")
    given = parser.parse_args()
    asyncio.run(measure(given.data, given.out, given.first, given.n, given.rewrite, given.texts))


if __name__ == "__main__":
    main()
