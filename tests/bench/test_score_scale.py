"""Where scores lie is measured with the questions of a set, and with those of a calibration on its own corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag import bench
from beliefrag.bench.own_questions import load_user_questions
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.opening import assemble
from beliefrag.policy import ScoreScale
from beliefrag.retrieval import Bm25Index
from beliefrag.settings import load_settings
from beliefrag.types import Passage
from tests.support.planted_states import SCALE, planted

TOWNS = ("Oslo", "Bergen", "Skien", "Larvik", "Moss", "Halden", "Hamar", "Molde", "Tromsø", "Horten")
PASSAGES = tuple(
    Passage(
        f"p{number}", town, f"{town} is town number {number} of Norway, and has a harbour, a church and {number} mills."
    )
    for number, town in enumerate(TOWNS)
)


def run_with(questions: int, folder: Path) -> ScoreScale | None:
    asked = folder / "asked.csv"
    rows = [f"How many mills has {TOWNS[n % 10]} in year {n}?,{n % 10}" for n in range(questions)]
    asked.write_text("\n".join(["question,answers", *rows]), encoding="utf-8")
    script = folder / "script.jsonl"
    script.write_text('{"purpose": "answer", "reply": "3", "repeat": true}\n', encoding="utf-8")
    spec = bench.RunSpec(datasets=(load_user_questions(asked, PASSAGES),), methods=("static",), n=2, judge=False)
    settings = load_settings({"model": f"scripted:{script}", "retriever": "bm25"}).settings
    return bench.run(spec, out=folder / "run", settings=settings).record.datasets["asked"].score_scales["bm25"]


def test_a_set_with_enough_questions_measures_the_scale_with_them(tmp_path: Path) -> None:
    index = Bm25Index.in_memory(PASSAGES)
    texts = [f"How many mills has {TOWNS[n % 10]} in year {n}?" for n in range(30)]
    found = run_with(30, tmp_path)
    assert found is not None and found != index.score_scale
    assert found.location == pytest.approx(index.measure_score_scale(texts).location)


def test_a_set_with_few_questions_takes_the_scale_of_the_passages(tmp_path: Path) -> None:
    assert run_with(5, tmp_path) == Bm25Index.in_memory(PASSAGES).score_scale


@pytest.mark.parametrize("same_corpus", [True, False])
def test_asking_takes_the_scale_that_a_calibration_had_on_the_same_corpus(tmp_path: Path, same_corpus: bool) -> None:
    index = Bm25Index.in_memory(PASSAGES)
    artifact = fit_artifact(planted(tmp_path / "states", questions=80), "f1")
    assert artifact.fit is not None
    (report,) = artifact.fit.datasets.values()
    if same_corpus:
        seen = {"own": report.model_copy(update={"fingerprint": index.fingerprint})}
        artifact = artifact.model_copy(update={"fit": artifact.fit.model_copy(update={"datasets": seen})})
    assert artifact.find_scale(index.fingerprint) == (SCALE if same_corpus else None)
    file = tmp_path / "own.json"
    file.write_text(artifact.model_dump_json(), encoding="utf-8")
    script = tmp_path / "script.jsonl"
    script.write_text('{"purpose": "answer", "reply": "3", "repeat": true}\n', encoding="utf-8")
    chosen = {"model": f"scripted:{script}", "retriever": "bm25", "method": "beliefrag", "borrow": str(file)}
    assembly = assemble(load_settings(chosen).settings, passages=PASSAGES)
    assert assembly.scale == (SCALE if same_corpus else index.score_scale)
