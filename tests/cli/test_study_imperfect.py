"""Studies and runs with injected passages: end to end on the scripted model, and again from the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.calibration import load_artifact
from beliefrag.calibration.artifact import write_artifact
from beliefrag.policy import FittedValue
from beliefrag.runs.record import RunRecord, thresholds_of
from tests.cli.shell import Ran
from tests.support.bench_runs import BORROWED, records, write_dataset, write_script
from tests.support.studied import numbers_of, rows_by
from tests.support.study_data import COLOURS, write_rows, write_snippets

Command = Callable[..., Ran]


QUESTIONS = 3


WEAK = {"unhelpful_doc_ids": [1], "support": 0.1, "conflict": 0.0, "gap": 0.9, "uncertainty": 0.9}


@pytest.fixture
def data(home: Path) -> list[str]:
    """Datasets of all kinds, and a model that believes a snippet where it sees one, and a lie before the truth."""
    for name in ("north", "south"):
        write_dataset(home, name, QUESTIONS)
    write_snippets(home, questions=QUESTIONS)
    write_rows(home, questions=QUESTIONS)
    lines = [{"purpose": "verifier", "match": "ship north1 born", "reply": WEAK, "repeat": True}]
    for k in range(QUESTIONS):
        false, true = COLOURS[(k + 3) % 8], COLOURS[k]
        for split, colour in (("fact", false), ("fact", true), ("noise", true)):
            seen = [f"flag of {split}town{k}?", f"{split}town{k} is {colour}"]
            lines.append({"purpose": "answer", "match": seen, "reply": colour, "repeat": True})
    model = write_script(home, *lines)
    fitted = load_artifact("published").model_copy(update={"retrieval_value": FittedValue(0.5, -1.0, 0.0, 0.0)})
    write_artifact(fitted, home / "valued.json")
    borrowed = (*BORROWED, "--set", "borrow=valued.json")
    return ["--data", "north", "south", "rgb", "holobench", "--model", model, *borrowed, "--yes"]


@pytest.mark.usefixtures("without_pictures")
def test_each_study_is_made_with_one_command_and_again_from_the_cache_with_the_same_numbers(
    beliefrag: Command, home: Path, data: list[str]
) -> None:
    for name in ("mechanism", "robustness", "holobench"):
        ran = beliefrag("study", name, *data, "--out", "studies")
        assert ran.code == 0, ran.err
        made = {path.suffix for path in (home / "studies" / name).iterdir()}
        assert made == {".json", ".csv", ".md", ".html", ".png", ".pdf"}
        replayed = beliefrag("study", name, *data, "--out", "again", "--set", "run.replay=true")
        assert replayed.code == 0, replayed.err
        assert numbers_of(home / "again" / name) == numbers_of(home / "studies" / name)
    robustness = numbers_of(home / "studies" / "robustness")["tables"]
    # Two of five passages lie, and the model believes a lie wherever it sees one.
    assert rows_by(robustness["counterfactual"], "name")["Static"]["false answer followed"]["value"] == 1.0
    assert rows_by(robustness["noise"], "name")["Static"]["F1 at 0%"]["value"] == 1.0
    holobench = rows_by(numbers_of(home / "studies" / "holobench")["tables"]["methods"], "name")
    # Question k needs k + 1 rows, and five are read.
    assert holobench["Static"]["rows needed"]["value"] == 2.0
    assert holobench["Static"]["row recall"]["value"] == 1.0
    runs = {path.name: RunRecord.read(path) for path in (home / "studies" / "runs").iterdir()}
    assert not thresholds_of(runs["no_verification"]).correction_prunes
    assert runs["answerability_frozen"].interventions == {"north": "frozen", "south": "frozen"}
    assert runs["answerability_permuted"].interventions["north"].startswith("permuted, seed 0, states ")
    injection = runs["noise_80"].injection
    assert injection is not None
    assert injection.noise == 0.8
    ways = {
        r.key.question_id: [step.action for step in r.steps]
        for r in records(home / "studies/runs/comparison")
        if r.method == "beliefrag"
    }
    assert "VERIFY" in ways["north-q1"]


def test_neither_or_both_sources_of_questions_are_refused(beliefrag: Command, home: Path) -> None:
    write_snippets(home)
    for given in ([], ["--data", "rgb", "--questions", "asked.csv"], ["--data", "rgb", "--docs", "notes"]):
        ran = beliefrag("bench", "run", "--out", "run", *given)
        assert ran.code != 0
        assert "--questions" in ran.err
