"""What the viewer's index costs on a large run: made-up episodes, times beside parsing the file once.

    python -m benchmarks.view_index --out view_index.json

Ratios say more than seconds: parsing is what a viewer without an index would do for every page.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from beliefrag.policy import Thresholds
from beliefrag.record import Episode, ModelCall, Outcome, Search, Step
from beliefrag.runs.record import DatasetRecord, MethodRecord, RunRecord
from beliefrag.runs.run_files import EPISODES_FILE, episode_line
from beliefrag.types import Action, Belief, Budget, Comparison, Diagnostics, Question, Usage
from beliefrag.web.view.index import ORDERS, EpisodeFilter, RunIndex, find_neighbours, list_episodes
from beliefrag.web.view.sources import RunSource

METHODS = ("static", "iterative", "crag", "beliefrag")
DATASETS = ("first", "second")
WORDS = ("ship", "river", "builder", "harbour", "island", "engine", "valley", "bridge", "museum", "painter", "actor")
PATTERNS = (
    (Action.RETRIEVE, Action.ANSWER),
    (Action.RETRIEVE, Action.VERIFY, Action.REWRITE, Action.RETRIEVE, Action.STOP),
    (Action.RETRIEVE, Action.RETRIEVE, Action.RETRIEVE, Action.ANSWER),
)


def episodes(count: int) -> Iterator[Episode]:
    """Yield episodes with the size and the fields of real ones."""
    draw = random.Random(0)
    questions = count // (len(METHODS) * len(DATASETS))
    for number in range(questions):
        for dataset in DATASETS:
            for method in METHODS:
                yield episode(draw, dataset, method, f"{dataset}-{number}")


def episode(draw: random.Random, dataset: str, method: str, question_id: str) -> Episode:
    """Return one episode."""
    actions = draw.choice(PATTERNS)
    f1 = draw.choice((0.0, 0.0, 0.4, 1.0))
    tokens = draw.randrange(500, 15_000)
    ids = tuple(f"p{draw.randrange(16**14):014x}" for _ in range(5))
    belief = Belief(*(draw.random() for _ in range(6)))
    call = ModelCall(purpose="verifier", reply="yes", tokens_in=700, tokens_out=1, counted_by="server", seconds=0.7)
    steps = tuple(
        Step(
            number=place,
            action=action,
            reason="retrieve",
            comparisons=(Comparison("answerability", draw.random(), "below", 0.5, True),),
            legal=tuple(Action),
            diagnostics=Diagnostics(*(draw.random() for _ in range(7))),
            belief=belief,
            answerability=draw.random(),
            retrieval_value=draw.random(),
            tokens=tokens,
            search=Search(
                query=" ".join(draw.choices(WORDS, k=8)),
                hits=tuple((each, draw.random() * 40) for each in ids),
                added=ids,
            ),
            evidence=ids,
            calls=(call,) * 3,
        )
        for place, action in enumerate(actions)
    )
    usage = Usage(calls=12, tokens_in=tokens, searches=2)
    return Episode(
        method=method,
        dataset=dataset,
        question=Question("", question_id),
        outcome=Outcome.STOPPED if actions[-1] is Action.STOP else Outcome.ANSWERED,
        answer=" ".join(draw.choices(WORDS, k=2)),
        metrics={
            "exact_match": float(f1 == 1),
            "f1": f1,
            "cover": float(f1 > 0),
            "evidence_recall": 0.5,
            "answer_row_recall": None,
            "judge": None,
            "rounds": 2,
            "actions": len(actions),
        },
        usage=replace(usage, by_purpose={"verifier": usage}),
        answerability=draw.random(),
        sources=ids,
        steps=steps,
        seconds=9.0,
    )


def write_run(folder: Path, count: int) -> int:
    """Write a run, and return the bytes of its episodes."""
    with (folder / EPISODES_FILE).open("wb") as file:
        file.writelines(episode_line(each) for each in episodes(count))
    questions = count // (len(METHODS) * len(DATASETS))
    RunRecord(
        made="",
        versions={},
        model="made up",
        setups=dict.fromkeys(METHODS, MethodRecord(verifier="structured", retriever="none", thresholds=Thresholds())),
        prompts={},
        budget=Budget(),
        judge=None,
        seed=0,
        methods=METHODS,
        datasets={
            name: DatasetRecord(
                fingerprint="", gold="", passages=0, question_ids=tuple(f"{name}-{k}" for k in range(questions))
            )
            for name in DATASETS
        },
        settings={},
    ).write(folder)
    return (folder / EPISODES_FILE).stat().st_size


def seconds(work: Callable[[], object]) -> float:
    """Return how long a processor works on it: what else a machine does is not in it."""
    start = time.process_time()
    work()
    return time.process_time() - start


def parse(folder: Path) -> None:
    """Read every line, as a viewer without an index would."""
    with (folder / EPISODES_FILE).open("rb") as file:
        for line in file:
            json.loads(line)


def page_times(index: RunIndex, pages: int, *, by_question: bool) -> list[float]:
    """Time of pages of a hundred episodes, or thirty questions, with drawn filters, orders and places, sorted."""
    draw = random.Random(1)
    times = []
    for _ in range(pages):
        wanted = EpisodeFilter(
            text=draw.choice(("", "", draw.choice(WORDS), f"{draw.choice(WORDS)} {draw.choice(WORDS)}")),
            method=draw.choice(("", *METHODS)),
            dataset=draw.choice(("", *DATASETS)),
            correctness=draw.choice(("", "right", "wrong")),
            actions=draw.choice(("", "VERIFY REWRITE")),
            order=draw.choice(list(ORDERS)),
            direction="down" if draw.random() < 0.5 else "up",
            by="question" if by_question else "episode",
            offset=draw.choice((0, 0, 100, 1_000)),
            limit=30 if by_question else 100,
        )
        times.append(seconds(lambda w=wanted: list_episodes(index, w)))  # type: ignore[misc]
    return sorted(times)


def measure(count: int, pages: int) -> dict[str, Any]:
    """Return all numbers, for so many episodes and pages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write_run(folder, count)
        database = folder / "index.sqlite"
        parsing = min(seconds(lambda: parse(folder)) for _ in range(3))
        index = RunIndex(folder, database)
        building = seconds(index.refresh)
        times, grouped = (page_times(index, pages, by_question=each) for each in (False, True))
        beside = seconds(lambda: find_neighbours(index, EpisodeFilter(order="tokens"), count // 2))
        line = statistics.median(seconds(lambda: index.episode(count // 2)) for _ in range(20))
        index.close()
        again = seconds(lambda: RunIndex(folder, database).refresh())
        source = RunSource(folder)
        overview, kept = seconds(source.overview), seconds(source.overview)
        source.close()
    p95 = times[int(0.95 * len(times))]
    return {
        "episodes": count,
        "megabytes": round(size / 1e6, 1),
        "processor seconds": {
            "parse the file": round(parsing, 3),
            "index it": round(building, 3),
            "open the index again": round(again, 4),
            "page, median": round(statistics.median(times), 4),
            "page, p95": round(p95, 4),
            "page by questions, median": round(statistics.median(grouped), 4),
            "page by questions, p95": round(grouped[int(0.95 * len(grouped))], 4),
            "neighbours of an episode": round(beside, 4),
            "line of an episode": round(line, 5),
            "overview with its intervals": round(overview, 3),
            "the same overview again": round(kept, 4),
        },
        "beside parsing": {"index it": round(building / parsing, 2), "page, p95": round(p95 / parsing, 4)},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = json.dumps(measure(given.episodes, given.pages), indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
