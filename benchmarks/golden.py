"""Freeze what the package computes today, and check that a changed tree still computes it.

    python -m benchmarks.golden freeze
    python -m benchmarks.golden check
    python -m benchmarks.golden check --parts numbers trace

Run it in the root of the repository. The parts `replay` and `ranking` need the data files of BELIEFRAG_DATA. The golden
files hold ids, numbers, hashes and answers of our model, but no benchmark text. Episodes that the date-comparison rule
of lean decides are left out: their answers need no reply, so the committed replies cannot replace them.

All entry points into the package are in the adapters, the functions before `PARTS`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beliefrag import bench, policy
from beliefrag.bench.metrics import covers, exact_match, token_f1
from beliefrag.bench.questions import Gold
from beliefrag.calibration import load_artifact
from beliefrag.calibration.quality import auc, brier, expected_calibration_error
from beliefrag.demo import load_passages, load_questions
from beliefrag.models.cache import import_replies
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.retrieval import RETRIEVERS, PassageSource, open_retriever
from beliefrag.runs.statistics import compare, compare_over_datasets, mean_estimate, mean_over_datasets
from beliefrag.settings import load_settings
from beliefrag.types import Action, Belief, Budget, Diagnostics
from benchmarks.decide.episodes import read_rows
from benchmarks.decide.replay import plan_replay, take_first
from benchmarks.decide.runs import RUNS, make_run
from benchmarks.find.mixed_corpus import MULTI_HOP, is_for_fitting, load_mixed_corpus
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict

__all__ = ["GOLDEN", "PARTS", "Items", "Part", "check_part", "compare_items", "main", "read_golden", "write_golden"]

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
Items = dict[str, dict[str, Any]]
"""What was computed: by item, its fields."""

_WORDS = """yes no the a north river stone lamp 12 1907 Anna Per Lund's blue-green U.S. harbour, of twice"""
_SWITCHES = ("abstain", "correct_conflict", "correct_unreliable", "correct_flagged")
_NUMBERS = (
    "answer conflict reliability retrieval_value novelty abstain_sufficiency abstain_uncertainty abstain_answerability"
)
_RECORDED_METHODS = "no_rag static iterative adaptive_rag rl_search ircot flare uncertainty_gate"
"""Methods that still ask what they asked when tests/recorded was made."""


def replay_committed(first: int | None, folder: Path) -> Items:
    """Replay the committed episodes, or those on the first questions of each set."""
    results = ROOT / "docs" / "results"
    rows = read_rows(results / "decide_episodes.csv")
    import_replies(results / "decide_replies.jsonl.gz")
    for step in plan_replay(take_first(rows, first) if first else rows):
        make_run(RUNS[step.run], step.n, folder, datasets=step.datasets, methods=step.methods, replay=True)
    return {key: item for run in sorted(folder.iterdir()) for key, item in _describe_run(run)}


def replay_recorded(first: int | None, folder: Path) -> Items:
    """Replay the runs of tests/recorded on the first questions of the demo."""
    import_replies(ROOT / "tests" / "recorded" / "replies.jsonl.gz")
    data = folder / "demo_set"
    data.mkdir()
    questions = [
        {"id": each.id, "question": each.question, "answers": each.answers, "supporting": each.supporting}
        for each in load_questions()
        if each.answers
    ]
    passages = [{"id": each.id, "title": each.title, "text": each.text} for each in load_passages()]
    for name, rows in (("questions", questions[:5]), ("corpus", passages)):
        with gzip.open(data / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    settings = load_settings(
        {
            "model": "golden",
            "base_url": "http://127.0.0.1:18999/v1",
            "verifier": "structured",
            "borrow": "published",
        }
    ).settings
    spec = bench.RunSpec(data=(data,), methods=tuple(_RECORDED_METHODS.split()), judge=False, replay=True)
    bench.run(spec, out=folder / "recorded", settings=settings)
    return dict(_describe_run(folder / "recorded"))


def _describe_run(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each finished episode of a run did, scored and cost."""
    for episode in bench.Run.open(folder).episodes():
        key, usage = episode.key, episode.usage
        if not episode.finished or (key.method == "lean" and episode.answer is not None and not usage.calls):
            continue
        yield (
            f"{folder.name} {key.method} {key.dataset} {key.question_id}",
            {
                "outcome": str(episode.outcome),
                "answer": episode.answer,
                "answerability": _round(episode.answerability),
                "actions": [str(step.action) for step in episode.steps],
                "branches": [str(step.branch) for step in episode.steps],
                # Of the last step, what was read for the answer.
                "retained": [*(list(step.evidence) for step in episode.steps[:-1]), list(episode.sources)],
                "tokens_in": usage.tokens_in,
                "tokens_out": usage.tokens_out,
                "calls": usage.calls,
                "f1": _round(episode.metrics["f1"]),
                "exact_match": _round(episode.metrics["exact_match"]),
            },
        )


def rank_questions(first: int | None, folder: Path) -> Items:
    """Rank the passages of the mixed corpus for 100 questions of each multi-hop set."""
    mixed = load_mixed_corpus()
    items: Items = {}
    for retriever, depth in (("linked", 10), ("bm25", 5)):
        opened = open_retriever(RETRIEVERS.choose(retriever, {}), PassageSource(passages=list(mixed.passages.values())))
        for name in MULTI_HOP:
            chosen = [each for each in mixed.questions[name] if not is_for_fitting(name, each)][:100]
            for each in chosen[:first]:
                hits = opened.search(each.question.text, depth)
                items[f"{retriever} {name} {each.id}"] = {
                    "ids": [hit.passage.id for hit in hits],
                    "scores": [_round(hit.score, 6) for hit in hits],
                }
    return items


def play_trace(first: int | None, folder: Path) -> Items:
    """Play the trace that the paper prints, with a scripted model."""
    retriever = PlannedRetriever(
        hits("Private_Music", "Myron_duo", "Zak_Starkey", "Weathermaker_Music", "Oasis_discography"),
        hits("Zak_Starkey", "Drum_kit", "Myron_duo", "Drummer_list", "English_folk"),
    )
    model = script(
        folder,
        verdict(0.30, 0.70, 1.0, unhelpful=[2, 3, 4, 5]),
        {"purpose": "rewriter", "reply": "Private Music signed drummer formerly a member of an English band"},
        {"purpose": "query_writer", "reply": "Ringo Starr drummer member of which English group?"},
        verdict(0.30, 0.60, 0.9),
        {"purpose": "answer", "reply": "The Beatles"},
    )
    method = published_method(ScoreScale(25.0, 5.0), Thresholds(merge_rewriter=False))
    question = "Private Music signed the drummer who was part of which English group?"
    result = asyncio.run(play(model, retriever, question=question, method=method))
    items: Items = {"end": {"answer": result.answer, "calls": result.usage.calls, "tokens": result.usage.tokens}}
    for step in result.steps:
        items[f"step {step.number}"] = {
            **{name: getattr(step, name) for name in ("action", "branch", "evidence")},
            **{name: _round(getattr(step, name)) for name in ("answerability", "retrieval_value")},
            **{name: _round_all(asdict(getattr(step, name))) for name in ("belief", "diagnostics")},
        }
    return items


def compute_metrics(first: int | None, folder: Path) -> Items:
    """Score made-up answers, and compute intervals, comparisons and calibration error of seeded numbers."""
    draw, words = random.Random(31), _WORDS.split()
    items: Items = {}
    for place in range(200):
        golds = [" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(draw.randint(1, 3))]
        # A gold answer with some words left out and some put in.
        kept = [word for word in draw.choice(golds).split() if draw.random() < 0.8]
        said = " ".join([*draw.choices(words, k=draw.randint(0, 2)), *kept, *draw.choices(words, k=draw.randint(0, 1))])
        scores = (exact_match(said, golds), token_f1(said, golds), covers(said, Gold(tuple(golds))))
        items[f"answer {place}"] = {"scores": [_round(float(each)) for each in scores]}
    sides = [
        {
            name: {measure: {f"q{i}": draw.random() for i in range(n)} for measure in ("f1", "tokens")}
            for name, n in (("one", 40), ("two", 25))
        }
        for _ in range(2)
    ]
    estimates = {
        "mean": mean_estimate(sides[0]["one"]["f1"]),
        "mean over datasets": mean_over_datasets({name: side["f1"] for name, side in sides[0].items()}),
    }
    compared = {"paired": compare(sides[0]["one"], sides[1]["one"]), "paired sets": compare_over_datasets(*sides)}
    for name, each in compared.items():
        items[name] = {"better_and_cheaper": each.better_and_cheaper}
        estimates |= {f"{name} {measure}": found.difference for measure, found in each.measures.items()}
    for name, estimate in estimates.items():
        items[name] = {part: _round(getattr(estimate, part)) for part in ("value", "low", "high")}
    p = np.array([draw.random() for _ in range(500)])
    y = np.array([float(draw.random() < each) for each in p])
    for measure in (expected_calibration_error, brier, auc):
        items[measure.__name__] = {"value": _round(float(measure(p, y, np.ones(500))))}
    return items


def compute_policy(first: int | None, folder: Path) -> Items:
    """Decide in seeded situations, and update beliefs and read both probabilities along seeded diagnostics."""
    draw = random.Random(62)
    items: Items = {}
    for place in range(2000):
        budget = Budget()
        spent = policy.Spent(draw.randint(0, 3), draw.randint(0, 5), draw.choice([0, 900, 6000, 12_000]))
        retained, missing = draw.choice([0, 1, 3, 5]), draw.random() < 0.1
        history = tuple(draw.choices([Action.RETRIEVE, Action.REWRITE, Action.VERIFY], k=spent.actions))
        situation = policy.Situation(
            belief=Belief(*(draw.random() for _ in range(6))),
            answerability=draw.random(),
            retrieval_value=draw.random() ** 2,
            novelty=draw.random(),
            rounds=spent.rounds,
            flagged=draw.choice([0, 0, 1, 3]),
            actions=history,
            legal=policy.legal_actions(
                budget, spent, has_evidence=retained > 0, has_query=spent.rounds > 0, nothing_missing=missing
            ),
            correction_fits=policy.correction_fits(budget, spent),
            nothing_missing=missing,
            retained=retained,
        )
        changed: dict[str, Any] = {}
        if place % 2:
            changed = {name: round(draw.random(), 3) for name in _NUMBERS.split() if draw.random() < 0.4}
            changed |= {name: False for name in _SWITCHES if draw.random() < 0.2}
            changed |= {draw.choice(["correction_prunes", "correction_replaces"]): draw.random() < 0.7}
            if changed.get("abstain", True) and draw.random() < 0.3:
                changed["decline_below"] = round(draw.random(), 3)
        decision = policy.decide(situation, policy.Thresholds(**changed))
        items[f"decision {place}"] = {
            "action": str(decision.action),
            "branch": str(decision.branch),
            "comparisons": [[c.name, _round(c.value), c.threshold, c.holds] for c in decision.comparisons],
        }
    scale = policy.ScoreScale(20.0, 8.0)
    for artifact in ("published", "qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b-lean"):
        fitted, belief = load_artifact(artifact).calibration(scale), policy.PRIOR
        for place in range(100):
            x = Diagnostics(*(draw.random() for _ in range(7)))
            belief = policy.update(belief, x)
            item = {
                "belief": _round_all(asdict(belief)),
                "p_ans": _round(fitted.answerability.probability(x, belief.sufficiency)),
            }
            if not artifact.endswith("lean"):
                found = {"novelty": x.novelty, "sufficiency": belief.sufficiency}
                item["p_flip"] = _round(fitted.retrieval_value.probability(rounds=place % 4, **found))
            items[f"{artifact} {place}"] = item
    platt, line = policy.PlattAnswerability(0.3, 0.8), policy.IsotonicAnswerability((0.2, 0.5, 0.9), (0.1, 0.4, 0.8))
    for place in range(20):
        score = draw.random()
        items[f"raw score {place}"] = {
            "p_ans": [*(_round(each.probability(x, score)) for each in (platt, line)), _round(score)]
        }
    return items


@dataclass(frozen=True, slots=True)
class Part:
    """One golden file, and how to compute it."""

    compute: Callable[[int | None, Path], Items]
    """Takes how many questions of each set to use, None for all, and an empty folder."""
    tolerance: float = 2e-9
    needs_data: bool = False


PARTS = {
    "replay": Part(replay_committed, needs_data=True),
    "recorded": Part(replay_recorded),
    "ranking": Part(rank_questions, 2e-6, needs_data=True),
    "trace": Part(play_trace),
    "metrics": Part(compute_metrics),
    "policy": Part(compute_policy),
}
_BRANCHES_MAY_CHANGE = "lean"
"""The method whose branches are frozen and not compared."""


def check_part(name: str, first: int | None = None) -> list[str]:
    """Compute a part again and return a line for each difference from its golden file.

    Args:
        name: A key of `PARTS`.
        first: Use only the first questions of each set, in the parts that need data.
    """
    frozen, computed = read_golden(name), _compute(name, first)
    if first and PARTS[name].needs_data:
        asked = {_question_of(key) for key in computed}
        sets = Counter(dataset for dataset, _ in asked)
        if short := {dataset for dataset, _ in map(_question_of, frozen) if sets[dataset] < first}:
            return [f"{name}: fewer than {first} questions of {', '.join(sorted(short))} were computed"]
        frozen = {key: item for key, item in frozen.items() if _question_of(key) in asked}
    return [f"{name}: {line}" for line in compare_items(frozen, computed, PARTS[name].tolerance)]


def compare_items(frozen: Items, computed: Items, tolerance: float = 0.0) -> Iterator[str]:
    """Yield a line for each field of a frozen item that is missing or different now."""
    for key, item in frozen.items():
        if key not in computed:
            yield f"{key}: missing"
            continue
        for field, value in item.items():
            now = computed[key].get(field)
            if not _is_same(value, now, tolerance) and not (
                field == "branches" and _BRANCHES_MAY_CHANGE in key.split()
            ):
                yield f"{key}: {field} was {value!r} and is now {now!r}"


def read_golden(name: str) -> Items:
    """Read a golden file."""
    items: Items = json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))
    return items


def write_golden(name: str) -> Path:
    """Compute a part and write its golden file. The same items give the same bytes."""
    file = GOLDEN / f"{name}.json.gz"
    text = json.dumps(_compute(name), sort_keys=True, separators=(",", ":"), allow_nan=False)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    return file


def _compute(name: str, first: int | None = None) -> Items:
    """Compute a part with an empty cache of replies."""
    before = os.environ.get("BELIEFRAG_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BELIEFRAG_CACHE_DIR"] = f"{folder}/cache"
        work = Path(folder) / "work"
        work.mkdir()
        try:
            items = PARTS[name].compute(first, work)
        finally:
            os.environ.pop("BELIEFRAG_CACHE_DIR")
            if before is not None:
                os.environ["BELIEFRAG_CACHE_DIR"] = before
    # Enums become text, and tuples lists, as in the file.
    plain: Items = json.loads(json.dumps(items))
    return plain


def _question_of(key: str) -> tuple[str, str]:
    dataset, question = key.split()[-2:]
    return dataset, question


def _is_same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return abs(one - other) <= tolerance
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_is_same(*pair, tolerance) for pair in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key], tolerance) for key in one)
    return bool(one == other)


def _round(value: float | None, digits: int = 9) -> float | None:
    return None if value is None else round(float(value), digits)


def _round_all(values: Mapping[str, float] | None) -> dict[str, float | None] | None:
    return None if values is None else {name: _round(value) for name, value in values.items()}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("freeze", "check"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--first", type=int, help="check only the first questions of each set")
    given = parser.parse_args(words)
    differences = 0
    for name in given.parts:
        if given.do == "freeze":
            file = write_golden(name)
            print(f"{name}: {len(read_golden(name)):,} items in {file}, {file.stat().st_size:,} bytes", flush=True)
        else:
            lines = check_part(name, given.first)
            differences += len(lines)
            print(*lines, f"{name}: {len(lines):,} differences", sep="\n", flush=True)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
