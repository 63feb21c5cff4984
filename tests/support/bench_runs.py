"""Made-up benchmarks in the common form, and a script that answers every method's calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.record import Episode
from beliefrag.runs.run_files import read_episode_at, read_lines
from tests.support.http_server import ChatServer

PLACES = ("Larvik", "Bergen", "Molde", "Hamar", "Narvik", "Skien", "Vardo", "Tromso", "Halden", "Moss")
VERDICT = {"unhelpful_doc_ids": [], "support": 0.95, "conflict": 0.0, "gap": 0.05, "uncertainty": 0.05}
BORROWED = ("--set", "borrow=published", "--set", "verifier=structured")


def write_dataset(folder: Path, name: str, questions: int = 4, **labels: Any) -> Path:
    """Return a dataset whose question k asks where builder k was born; ship k leads to builder k."""
    home = folder / name
    home.mkdir(parents=True)
    asked, passages = [], []
    for k in range(questions):
        place = PLACES[k % len(PLACES)]
        ship, builder = f"{name}-{k}-ship", f"{name}-{k}-builder"
        passages.append(
            {"id": ship, "title": f"Ship {name}{k}", "text": f"Ship {name}{k} was built by Builder{name}{k}."}
        )
        passages.append({"id": builder, "title": f"Builder{name}{k}", "text": f"Builder{name}{k} was born in {place}."})
        asked.append(
            {
                "id": f"{name}-q{k}",
                "question": f"Where was the builder of ship {name}{k} born?",
                "answers": [place],
                "supporting": [ship, builder],
                **labels,
            }
        )
    _lines(home / "questions.jsonl", asked)
    _lines(home / "corpus.jsonl", passages)
    return home


def write_script(folder: Path, *first: Mapping[str, Any], name: str = "bench.jsonl") -> str:
    """Return a model for every method, to be asked any number of times; the lines given come before the common ones.

    Question 0 is answered rightly, question 1 in part, and all others wrongly, whatever the dataset.
    """
    lines: list[Mapping[str, Any]] = [*first]
    lines += [
        {"purpose": "judge", "match": ["Larvik", "Given answer: Larvik"], "reply": "yes", "repeat": True},
        {"purpose": "judge", "reply": "no", "repeat": True},
        {"purpose": "verifier", "reply": VERDICT, "repeat": True},
        {"purpose": "grader", "reply": {"grades": [0.9, 0.9, 0.9, 0.9, 0.9]}, "repeat": True},
        {"purpose": "query_writer", "match": "Ship", "reply": "where was the builder born", "repeat": True},
        {"purpose": "query_writer", "reply": "SUFFICIENT", "repeat": True},
        {"purpose": "rewriter", "reply": "birthplace of the builder", "repeat": True},
        {"purpose": "router", "reply": "C", "repeat": True},
        {"purpose": "trigger", "reply": "yes", "repeat": True},
        {"purpose": "reasoner", "reply": "So the answer is: Oslo.", "repeat": True},
        {"purpose": "dialogue", "reply": "<answer>Oslo</answer>", "repeat": True},
        {"purpose": "gate", "reply": "Oslo", "logprobs": {"Oslo": 0.2}, "repeat": True},
        {"purpose": "read", "reply": "Oslo", "logprobs": {"Oslo": 0.9}, "repeat": True},
        {
            "purpose": "draft",
            "reply": "Oslo it is.",
            "logprobs": [{"token": "Oslo", "p": 0.9}, {"token": " it", "p": 0.9}, {"token": " is.", "p": 0.9}],
            "repeat": True,
        },
    ]
    for dataset in ("north", "south"):
        ask = f"builder of ship {dataset}"
        lines.append({"purpose": "answer", "match": f"{ask}0 born", "reply": "Larvik", "repeat": True})
        lines.append({"purpose": "answer", "match": f"{ask}1 born", "reply": "Bergen harbour", "repeat": True})
    lines.append({"purpose": "answer", "reply": "Oslo", "repeat": True})
    path = folder / name
    _lines(path, lines)
    return f"scripted:{path}"


def records(run: Path) -> list[Episode]:
    """Return all lines of a run's episodes, in the order of the file."""
    return [read_episode_at(run, line.offset) for line in read_lines(run)]


def _lines(path: Path, rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def line_of(home: Path, *more: str, out: str = "run", questions: int = 4) -> list[str]:
    """Return a run of both made-up datasets with the scripted model."""
    for name in ("north", "south"):
        if not (home / name).exists():
            write_dataset(home, name, questions)
    model = write_script(home)
    return ["bench", "run", "--data", "north", "south", "--model", model, *BORROWED, "--out", out, *more]


def served(server: ChatServer) -> list[str]:
    return ["--model", "m", "--base-url", server.url, *BORROWED]
