"""A survey of questions whose endings are known, and a calibration of the model that answered them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from beliefrag.bench.setup import RunSpec
from beliefrag.calibration import load_artifact
from beliefrag.calibration.artifact import write_artifact
from beliefrag.cli.bench import carry_out_run
from beliefrag.models.scripted import Scripted
from beliefrag.retrieval import Bm25Index
from beliefrag.runs.partitions import Partition, partition
from beliefrag.settings import Settings
from tests.support.bench_runs import PLACES, VERDICT, write_dataset, write_script

QUESTIONS = 40
HELD_OUT = [k for k in range(QUESTIONS) if partition(f"north-q{k}") is Partition.XHOLD]
UNSURE = {"unhelpful_doc_ids": [], "support": 0.0, "conflict": 0.0, "gap": 1.0, "uncertainty": 1.0}


def knows(k: int) -> bool:
    """Return whether the model is sure of question k, and right; of the others it is unsure, and wrong."""
    return k % 2 == 0


def write_model(folder: Path, **how: Any) -> str:
    """Return a script of a model that knows every other answer."""
    lines: list[dict[str, Any]] = []
    for k in range(QUESTIONS):
        asked = f"builder of ship north{k} born"
        lines.append({"purpose": "answer", "match": asked, "reply": PLACES[k % 10] if knows(k) else "Oslo"})
        lines.append({"purpose": "verifier", "match": asked, "reply": VERDICT if knows(k) else UNSURE})
    return write_script(folder, *({**line, "repeat": True} for line in lines), **how)


def survey(folder: Path, *methods: str, settings: Settings | None = None) -> Path:
    """Return the run of a survey over all questions, or of other methods."""
    data = folder / "north" if (folder / "north").exists() else write_dataset(folder, "north", questions=QUESTIONS)
    settings = settings or Settings(model=write_model(folder), verifier="structured", cache=False)
    wanted = RunSpec((data,), methods or ("survey",), judge=False)
    out = folder / "-".join(("run", *methods))
    assert carry_out_run(settings, wanted, out, yes=True) == 0
    return out


def calibration(folder: Path, model: str, **changes: Any) -> Path:
    """Return the paper's numbers as if they had been fitted for that scripted model."""
    backbone = Scripted(Path(model.removeprefix("scripted:"))).identity
    file = folder / "mine.json"
    fitted = {"name": "mine", "origin": "fitted", "backbone": backbone, "retriever": Bm25Index.identity, **changes}
    write_artifact(load_artifact("published").model_copy(update=fitted), file)
    return file
