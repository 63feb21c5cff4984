"""The notebook of the examples: a reader sees its results, and every cell of it runs again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "compare_methods.ipynb"


def read_notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]


def outputs_of(notebook: Any) -> str:
    return json.dumps([cell.get("outputs", []) for cell in notebook.cells])


def test_the_committed_notebook_shows_its_results() -> None:
    notebook = read_notebook()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    shown = outputs_of(notebook)
    assert "<svg" in shown
    assert "BeliefRAG" in shown
    assert "Traceback" not in shown


def test_every_cell_of_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES / "handbook", tmp_path / "handbook")
    shutil.copy(EXAMPLES / "questions.csv", tmp_path)
    lines: list[dict[str, Any]] = [
        {
            "purpose": "verifier",
            "reply": {"unhelpful_doc_ids": [], "support": 0.9, "conflict": 0, "gap": 0, "uncertainty": 0},
        },
        {"purpose": "query_writer", "reply": "caretaker of the Elm Building"},
        {"purpose": "answer", "reply": "Mirjam Dahl"},
    ]
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(json.dumps({**line, "repeat": True}) for line in lines), encoding="utf-8")
    for name, value in {
        "BELIEFRAG_CACHE_DIR": str(tmp_path / "cache"),
        "BELIEFRAG_MODEL": f"scripted:{script}",
        "BELIEFRAG_BORROW": "published",
        "BELIEFRAG_VERIFIER": "structured",
    }.items():
        monkeypatch.setenv(name, value)
    notebook = read_notebook()
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = outputs_of(notebook)
    # Of six questions one is answered by the scripted model's only answer.
    assert "0.167" in shown
    assert "<svg" in shown
