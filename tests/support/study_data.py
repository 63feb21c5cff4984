"""Made-up benchmarks for studies: web snippets of which some lie, and rows of a database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

COLOURS = ("red", "blue", "green", "amber", "violet", "silver", "golden", "purple")
FILLERS = 40


def write_snippets(folder: Path, name: str = "rgb", questions: int = 6) -> Path:
    """Return questions about the colour of a flag; of the split `fact`, each snippet has a false version."""
    asked, passages = [], []
    for split in ("noise", "fact"):
        for k in range(questions):
            town, colour, false = f"{split}town{k}", COLOURS[k % 8], COLOURS[(k + 3) % 8]
            right = [f"{split}-{k}-right{i}" for i in range(3)]
            wrong = [f"{split}-{k}-wrong{i}" for i in range(3)] if split == "fact" else []
            for i, key in enumerate(right):
                passages.append({"id": key, "title": "", "text": f"Note {i}: the flag of {town} is {colour}."})
            for i, key in enumerate(wrong):
                passages.append({"id": key, "title": "", "text": f"Note {i}: the flag of {town} is {false}."})
            labels = {"positive_wrong_ids": wrong, "fakeanswer": false} if wrong else {}
            asked.append(
                {
                    "id": f"{split}-{k}",
                    "question": f"Which colour has the flag of {town}?",
                    "answers": [colour],
                    "supporting": right,
                    "subset": split,
                    **labels,
                }
            )
    return _written(folder / name, asked, [*passages, *fillers()])


def write_rows(folder: Path, name: str = "holobench", questions: int = 6) -> Path:
    """Return questions about the wines of a cellar: question k needs k + 1 rows."""
    asked, passages = [], []
    for k in range(questions):
        rows = [f"row-{k}-{i}" for i in range(k + 1)]
        passages += [{"id": row, "title": "", "text": f"cellar{k} holds wine{k}x{i}"} for i, row in enumerate(rows)]
        asked.append(
            {
                "id": f"rows-{k}",
                "question": f"Which wines does cellar{k} hold?",
                "answers": [f"wine{k}x{i}" for i in range(k + 1)],
                "supporting": rows,
                "answer_form": "set",
            }
        )
    return _written(folder / name, asked, [*passages, *fillers()])


def fillers(count: int = FILLERS) -> list[dict[str, str]]:
    """Return passages that have nothing to do with any question."""
    return [{"id": f"filler{k}", "title": "", "text": f"bread number {k} bakes slowly"} for k in range(count)]


def _written(home: Path, asked: Iterable[Mapping[str, Any]], passages: Iterable[Mapping[str, Any]]) -> Path:
    home.mkdir(parents=True)
    for name, lines in (("questions", asked), ("corpus", passages)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (home / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return home
