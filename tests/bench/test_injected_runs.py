"""Runs on imperfect evidence: what is injected, what is recorded of it, and who may go on with such a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from beliefrag.bench.datasets import load_dataset
from beliefrag.bench.perturbation import score_misled
from beliefrag.bench.questions import Gold
from beliefrag.bench.setup import RunSpec
from beliefrag.calibration import conditions_of_run, find_calibration_warnings, load_artifact
from beliefrag.cli.bench import carry_out_run
from beliefrag.errors import CalibrationError
from beliefrag.methods.intervention import FrozenAnswerability, MatchedState, PermutedAnswerability
from beliefrag.record import Episode, Injected
from beliefrag.report.run_report import provenance
from beliefrag.runs.record import Injection, RunRecord
from beliefrag.runs.run_errors import DataError, RunChanged
from beliefrag.runs.run_files import comparable_lines
from beliefrag.runs.summary import summarise
from beliefrag.settings import Settings
from tests.support.bench_runs import records, write_dataset, write_script
from tests.support.messages import mentions
from tests.support.study_data import COLOURS, write_snippets


def run(folder: Path, data: Path, out: str = "run", *, methods: tuple[str, ...] = ("static",), **how: Any) -> Path:
    settings = Settings(model=write_script(folder), verifier="structured", borrow="published", cache=False)
    wanted = RunSpec((data,), methods, judge=False, **how)
    assert carry_out_run(settings, wanted, folder / out, yes=True) == 0
    return folder / out


def injected(folder: Path) -> dict[str, Injected]:
    return {record.question.id: injected_into(record) for record in records(folder)}


def injected_into(episode: Episode) -> Injected:
    assert episode.injected is not None
    return episode.injected


def test_nothing_injected_is_the_run_without_injection_to_the_byte(tmp_path: Path) -> None:
    data = write_snippets(tmp_path)
    plain, zero = run(tmp_path, data), run(tmp_path, data, "zero", injection=Injection(0.0, 0.0, 7))
    assert comparable_lines(plain) == comparable_lines(zero)
    one, other = (json.loads((each / "run.json").read_text()) for each in (plain, zero))
    assert {**one, "made": ""} == {**other, "made": ""}
    assert records(plain)[0].injected is None


def test_noise_comes_from_the_corpus_and_the_record_names_it(tmp_path: Path) -> None:
    data = write_snippets(tmp_path)
    found = run(tmp_path, data, injection=Injection(noise=0.4, seed=3), splits=("noise",))
    record = RunRecord.read(found)
    assert record.injection == Injection(noise=0.4, seed=3)
    for line in records(found):
        evidence = line.steps[-1].evidence
        noise = [each for each in evidence if each.startswith("filler")]
        assert (len(evidence), len(noise)) == (5, 2)
        assert injected_into(line).counterfactual == ()
        assert set(noise) == set(injected_into(line).noise)
        assert "follows_false" not in line.metrics


def test_a_datasets_own_false_passages_come_by_injection_alone(tmp_path: Path) -> None:
    data = write_snippets(tmp_path)
    found = run(tmp_path, data, injection=Injection(counterfactual=0.4), splits=("fact",))
    for line in records(found):
        k = line.question.id.removeprefix("fact-")
        wrong = injected_into(line).counterfactual
        assert len(wrong) == 2
        assert all(each.startswith(f"fact-{k}-wrong") for each in wrong)
        # Each stands where the passage stood that it is a false version of.
        evidence = line.steps[-1].evidence
        assert {each for each in evidence if "wrong" in each} == set(wrong)
        assert not {each.replace("wrong", "right") for each in wrong} & set(evidence)
        assert line.metrics["false_read"] == 2.0
    plain = run(tmp_path, data, "plain", splits=("fact",))
    noisy = run(tmp_path, data, "noisy", injection=Injection(noise=0.4), splits=("fact",))
    with_false = len(load_dataset(data).passages)
    for each in (found, plain, noisy):
        assert with_false - RunRecord.read(each).datasets["rgb"].passages == 18
    assert not any("wrong" in each for line in records(plain) for each in line.steps[-1].evidence)


def test_a_dataset_without_false_passages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="north has no false passages"):
        run(tmp_path, write_dataset(tmp_path, "north", 2), injection=Injection(counterfactual=1.0))


def test_following_and_recovering_by_hand() -> None:
    gold = Gold(("Larvik",))
    assert score_misled("Skien", gold, "Skien") == {"follows_false": 1.0, "recovers_true": 0.0}
    assert score_misled("in Larvik, not in Skien", gold, "Skien") == {"follows_false": 0.0, "recovers_true": 1.0}
    assert score_misled("Oslo", gold, "Skien") == {"follows_false": 0.0, "recovers_true": 0.0}
    assert score_misled(None, gold, "Skien") == {"follows_false": 0.0, "recovers_true": 0.0}


def test_a_report_has_the_rates_and_says_what_was_injected(tmp_path: Path) -> None:
    data = write_snippets(tmp_path, questions=4)
    script = [
        {"purpose": "answer", "match": f"facttown{k}?", "reply": COLOURS[k + 3 * (k < 2)], "repeat": True}
        for k in range(4)
    ]
    settings = Settings(model=write_script(tmp_path, *script), verifier="structured", borrow="published", cache=False)
    wanted = RunSpec((data,), ("static",), judge=False, splits=("fact",), injection=Injection(counterfactual=0.4))
    carry_out_run(settings, wanted, tmp_path / "run", yes=True)
    summary = summarise(tmp_path / "run")
    (cell,) = summary.cells
    followed, recovered = cell.measures["follows_false"], cell.measures["recovers_true"]
    assert followed is not None
    assert recovered is not None
    assert (followed.value, recovered.value) == (0.5, 0.5)
    assert mentions(dict(provenance(summary))["retriever"], "40 % counterfactual", "seed 0")


def test_a_run_whose_answerability_was_exchanged_goes_on_with_the_same_exchange(tmp_path: Path) -> None:
    data = write_dataset(tmp_path, "north", 4)
    how: dict[str, Any] = {"methods": ("beliefrag",)}
    run(tmp_path, data, interventions={"north": FrozenAnswerability()}, n=2, **how)
    assert RunRecord.read(tmp_path / "run").interventions == {"north": "frozen"}
    run(tmp_path, data, interventions={"north": FrozenAnswerability()}, **how)
    with pytest.raises(RunChanged, match=r"north frozen, .* its own"):
        run(tmp_path, data, **how)
    one, other = (PermutedAnswerability({1: (MatchedState("q", value),)}).identity for value in (0.1, 0.2))
    assert one != other


def test_a_calibration_is_used_as_it_is_but_promises_nothing_there(tmp_path: Path) -> None:
    data = write_snippets(tmp_path)
    found = run(tmp_path, data, injection=Injection(counterfactual=0.4), splits=("fact",), methods=("beliefrag",))
    record = RunRecord.read(found)
    assert record.calibrations
    # What is fitted on such states is for such hits, and a fit on ordinary ones is doubted here.
    fitted = load_artifact("published").model_copy(
        update={"origin": "fitted", "retriever": record.setups["beliefrag"].retriever}
    )
    warnings = find_calibration_warnings(fitted, conditions_of_run(record))
    assert any("fitted with the retriever" in warning for warning in warnings)
    settings = Settings(
        model=write_script(tmp_path), verifier="structured", borrow="published", cache=False, max_error=0.1
    )
    wanted = RunSpec((data,), ("beliefrag",), judge=False, injection=Injection(noise=0.5), preview=True)
    with pytest.raises(CalibrationError, match=r"50 % irrelevant"):
        carry_out_run(settings, wanted, tmp_path / "promised", yes=True)
