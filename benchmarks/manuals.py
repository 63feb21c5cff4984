"""What a person gets who asks 75 questions about 429 real manual files: answers, refusals, citations and seconds.

    python -m benchmarks.manuals --method lean --retriever linked --pack 160 --out runs/manuals_lean.jsonl
    python -m benchmarks.manuals --method no_rag --out runs/manuals_closed_book.jsonl
    python -m benchmarks.manuals --report runs/manuals_*.jsonl --json docs/results/manuals.json

The questions are asked as `beliefrag ask` asks them, with its rules for declining, and only their text is shown. Each
answer is written down when it is there: the same command goes on where it was ended, and replies are cached besides.
`--set NAME=VALUE` sets anything else, such as `thresholds.decline_below=0`. `no_rag` answers without documents: what
the model knows by heart. None of these questions is for fitting.

A citation holds a quote where it has at least 60 % of the quote's words in one run and is from a file that has the
quote; a passage that was read holds it likewise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import statistics
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, TextIO

from beliefrag.bench.metrics import covers, normalise
from beliefrag.bench.questions import Gold
from beliefrag.engine import loop
from beliefrag.opening import Assembly, assemble
from beliefrag.record import Episode
from beliefrag.settings import load_settings
from beliefrag.types import Question
from benchmarks.find.mixed_corpus import data_folder

__all__ = [
    "ask_questions",
    "build_report",
    "holds_quote",
    "is_right",
    "read_questions",
    "wilson_interval",
    "without_texts",
]

KINDS = ("single", "two_hop", "unanswerable")
_LARGER_PART = 0.6
_WORD = re.compile(r"[^\W_]+")

Record = dict[str, Any]


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data_folder() / "manuals", help="the folder of the set")
    parser.add_argument("--out", type=Path, help="where the answers are written, a line each")
    parser.add_argument("--report", type=Path, nargs="+", help="report on these files and ask nothing")
    parser.add_argument("--json", type=Path, help="with --report: also write what each question came to, without texts")
    parser.add_argument("--n", type=int, help="ask only the first N questions of each kind")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="any other setting")
    for name in ("method", "retriever", "pack", "model", "base-url", "calibration", "borrow", "verifier"):
        parser.add_argument(f"--{name}", help=f"the setting {name.replace('-', '_')}")
    chosen = parser.parse_args()
    files = chosen.report
    if files is None:
        if chosen.out is None:
            parser.error("--out says where the answers are written")
        names = ("method", "retriever", "pack", "model", "base_url", "calibration", "borrow", "verifier")
        typed = {name: getattr(chosen, name) for name in names if getattr(chosen, name) is not None}
        typed |= dict(each.split("=", 1) for each in chosen.set)
        _ask_missing(chosen.data, chosen.out, typed, chosen.n)
        files = [chosen.out]
    questions = read_questions(chosen.data)
    kept: dict[str, Record] = {}
    for file in files:
        head, answers = _read_answers(file)
        kept[file.stem] = {"settings": head["settings"], "answers": without_texts(questions, answers)}
        print(f"\n{file}: {json.dumps(head['settings'])}")
        for line in build_report(questions, answers):
            print(line)
    if chosen.json:
        chosen.json.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


def without_texts(questions: Mapping[str, Record], answers: Mapping[str, Record]) -> list[Record]:
    """Return what each question came to: numbers and judgements, no text of the manuals."""
    return [
        {
            "id": one,
            "kind": questions[one]["kind"],
            **{name: answer[name] for name in ("outcome", "answerability", "tokens", "seconds")},
            "right": is_right(answer["answer"], questions[one]),
            "cites_answers_quote": _holds(questions[one], answer, "citations", every=False),
            "cites_every_quote": _holds(questions[one], answer, "citations", every=True),
            "read_every_quote": _holds(questions[one], answer, "sources", every=True),
        }
        for one, answer in answers.items()
    ]


def read_questions(folder: Path) -> dict[str, Record]:
    """Read the questions of the set by their ids."""
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text("utf-8").splitlines()]
    return {row["id"]: row for row in rows}


def _ask_missing(folder: Path, out: Path, typed: Mapping[str, str], most: int | None) -> None:
    questions = read_questions(folder)
    head: Record = {"settings": dict(typed)}
    done: dict[str, Record] = {}
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.exists():
        earlier, done = _read_answers(out)
        if earlier != head:
            sys.exit(f"{out} was made with {earlier['settings']}, not {head['settings']}: name another file.")
    else:
        out.write_text(json.dumps(head) + "\n", encoding="utf-8")
    wanted = [row for kind in KINDS for row in [each for each in questions.values() if each["kind"] == kind][:most]]
    missing = {row["id"]: row["question"] for row in wanted if row["id"] not in done}
    if missing:
        assembly = assemble(load_settings(typed).settings, docs=[folder / "documents"])
        with out.open("a", encoding="utf-8") as file:
            asyncio.run(_write_answers(assembly, missing, file))


async def _write_answers(assembly: Assembly, questions: Mapping[str, str], file: TextIO) -> None:
    try:
        async with aclosing(ask_questions(assembly, questions)) as answers:
            async for record in answers:
                file.write(json.dumps(record) + "\n")
                file.flush()
                print(
                    f"{record['id']}: {record['outcome']} {record['answer']!r} in {record['seconds']:.1f} s", flush=True
                )
    finally:
        await assembly.model.aclose()


async def ask_questions(assembly: Assembly, questions: Mapping[str, str]) -> AsyncGenerator[Record, None]:
    """Ask the questions one after the other and yield what is kept of each answer.

    Args:
        assembly: What answers, opened.
        questions: The text of each question by its id: all that the product is shown.
    """
    for identifier, text in questions.items():
        result = await loop.play(Question(text), assembly.method, assembly.harness)
        record = _keep(identifier, result)
        if result.error is not None:
            # A failure is neither an answer nor a refusal: the next run asks again.
            sys.exit(f"{identifier} failed: {result.error.message}")
        yield record


def _keep(identifier: str, result: Episode) -> Record:
    usage = result.usage
    cited = [{"source": each.source, "quote": each.quote, "role": each.role.value} for each in result.citations]
    return {
        "id": identifier,
        "outcome": str(result.outcome),
        "answer": result.answer,
        "best_guess": result.best_guess,
        "answerability": result.answerability,
        "citations": cited,
        "sources": [{"source": each.source, "text": each.text} for each in result.read_passages],
        "tokens": usage.tokens,
        "calls": usage.calls,
        # What comes from the cache took the model its time once.
        "seconds": usage.seconds if usage.cached_calls else result.seconds,
    }


def _read_answers(file: Path) -> tuple[Record, dict[str, Record]]:
    whole = [line for line in file.read_text("utf-8").splitlines(keepends=True) if line.endswith("\n")]
    # A line that a kill has cut is asked again.
    file.write_text("".join(whole), encoding="utf-8")
    head, *rows = [json.loads(line) for line in whole] or [{"settings": {}}]
    return head, {row["id"]: row for row in rows}


def is_right(answer: str | None, question: Record) -> bool:
    """Return whether an answer is right: it has an accepted form as a run of whole words, however it is spaced."""
    if answer is None or not question["answers"]:
        return False
    without_spaces = normalise(answer).replace(" ", "")
    return covers(answer, Gold(tuple(question["answers"]))) or any(
        without_spaces == normalise(form).replace(" ", "") for form in question["answers"]
    )


def holds_quote(texts: Iterable[tuple[str, str]], quote: Record) -> bool:
    """Return whether one of these texts, each with its file, holds a supporting quote or the larger part of it."""
    wanted = _words(quote["quote"])
    files = {Path(name).name for name in (quote["file"], *(quote.get("also_in") or ()))}
    return any(
        Path(source.split("#")[0]).name in files
        and _longest_run(wanted, _words(text)) >= math.ceil(_LARGER_PART * len(wanted))
        for source, text in texts
    )


def _longest_run(wanted: Sequence[str], held: Sequence[str]) -> int:
    return SequenceMatcher(None, wanted, held, autojunk=False).find_longest_match().size


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def build_report(questions: Mapping[str, Record], answers: Mapping[str, Record]) -> list[str]:
    """Build the table of one file of answers, line by line; shares have Wilson intervals of 95 %."""
    asked = {
        kind: [row for row in questions.values() if row["kind"] == kind and row["id"] in answers] for kind in KINDS
    }
    lines = [
        _share("unanswerable ones answered", [_is_given(row, answers) for row in asked["unanswerable"]]),
        _share("single-hop ones answered right", [_right(row, answers) for row in asked["single"]]),
        _share("two-hop ones answered right", [_right(row, answers) for row in asked["two_hop"]]),
        _share("single-hop ones declined", [not _is_given(row, answers) for row in asked["single"]]),
        _share("two-hop ones declined", [not _is_given(row, answers) for row in asked["two_hop"]]),
    ]
    answerable = [*asked["single"], *asked["two_hop"]]
    given = [row for row in answerable if _is_given(row, answers)]
    lines.append(_share("answers given to answerable ones that are wrong", [not _right(row, answers) for row in given]))
    right = [row for row in answerable if _right(row, answers)]
    for title, field, every in (
        ("right answers whose citations hold the answer's quote", "citations", False),
        ("right answers whose citations hold every quote", "citations", True),
        ("right answers whose passages read hold every quote", "sources", True),
    ):
        lines.append(_share(title, [_holds(row, answers[row["id"]], field, every=every) for row in right]))
    seconds = [each["seconds"] for each in answers.values()]
    tokens = statistics.fmean(each["tokens"] for each in answers.values()) if answers else 0.0
    if seconds:
        quarters = statistics.quantiles(seconds, n=10) if len(seconds) > 1 else seconds * 9
        lines.append(
            f"seconds: median {statistics.median(seconds):.1f}, mean {statistics.fmean(seconds):.1f}, "
            f"one in ten above {quarters[8]:.1f}; tokens: mean {tokens:,.0f}"
        )
    return lines


def _is_given(row: Record, answers: Mapping[str, Record]) -> bool:
    return answers[row["id"]]["answer"] is not None


def _right(row: Record, answers: Mapping[str, Record]) -> bool:
    return is_right(answers[row["id"]]["answer"], row)


def _holds(row: Record, answer: Record, field: str, *, every: bool) -> bool:
    texts = [(each["source"], each["quote" if field == "citations" else "text"]) for each in answer[field]]
    # The answer stands in the last quote; those before it lead there.
    quotes = row["supporting"] if every else row["supporting"][-1:]
    return bool(quotes) and all(holds_quote(texts, quote) for quote in quotes)


def _share(title: str, values: Sequence[bool]) -> str:
    if not values:
        return f"{title}: none to look at"
    low, high = wilson_interval(sum(values), len(values))
    return f"{title}: {sum(values)} of {len(values)}, {sum(values) / len(values):.2f} ({low:.2f}-{high:.2f})"


def wilson_interval(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Return the interval of a share after Wilson (1927), which is sound for few questions, none or all of them."""
    share = count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total)) / (1 + z * z / total)
    return max(0.0, middle - half), min(1.0, middle + half)


if __name__ == "__main__":
    main()
