import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beliefrag.calibration import Artifact, fitting, load_artifact
from beliefrag.calibration.examples import Example, Examples, label_searches, label_states, read_collection
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.fitting import choose_kind, fit_all_kinds
from beliefrag.errors import CalibrationError
from beliefrag.policy import LogisticAnswerability, PlattAnswerability
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.states import read_trajectories
from beliefrag.types import Action, Diagnostics
from tests.support import studied
from tests.support.messages import mentions
from tests.support.planted_states import INTERCEPT, SCALE, WEIGHTS, change, planted, write_run


def ids_of(*parts: Partition, count: int = 40) -> list[str]:
    """Question ids of these parts, so many of each."""
    every = [f"q{number}" for number in range(count * 20)]
    return [each for part in parts for each in [q for q in every if partition(q) is part][:count]]


def fitted(folder: Path, **how: Any) -> Artifact:
    return fit_artifact(planted(folder, **how), "f1")


def warned(artifact: Artifact, *parts: str) -> bool:
    assert artifact.fit is not None
    return any(mentions(warning, *parts) for warning in artifact.fit.warnings)


def test_a_planted_logistic_is_recovered_and_chosen(tmp_path: Path) -> None:
    states, *_ = label_states(planted(tmp_path, questions=3000).trajectories, "f1")
    fits = fit_all_kinds(states.select_part(Partition.XFIT))
    found = fits.kinds["logistic"]
    assert isinstance(found, LogisticAnswerability)
    # Three standard errors: a weight of a uniform diagnostic on these 3,600 states has one of about 0.13.
    assert found.intercept == pytest.approx(INTERCEPT, abs=0.4)
    assert found.weights.vector() == pytest.approx(WEIGHTS.vector(), abs=0.4)
    assert fits.idle == ("conflict",)
    assert choose_kind(fits, states.select_part(Partition.XSEL))[0] == "logistic"


def test_a_planted_line_in_the_raw_score_is_recovered(tmp_path: Path) -> None:
    truth = PlattAnswerability(-0.7, 1.8)
    states, *_ = label_states(planted(tmp_path, questions=1500).trajectories, "f1")
    draw = random.Random(1)
    relabelled = Examples(
        replace(e, positive=draw.random() < truth.probability(e.state.diagnostics, e.state.belief.sufficiency))
        for e in states.each
    )
    found = fit_all_kinds(relabelled).kinds["platt"]
    assert isinstance(found, PlattAnswerability)
    assert (found.intercept, found.slope) == pytest.approx((-0.7, 1.8), abs=0.15)


def test_where_there_is_no_signal_the_fit_is_no_better_than_the_base_rate(tmp_path: Path) -> None:
    artifact = fitted(tmp_path, questions=300, chance=lambda x: 0.5)
    assert artifact.fit is not None and artifact.fit.answerability.held_out is not None
    gain = artifact.fit.answerability.held_out.brier_gain
    assert gain.low is not None and gain.low <= 0
    assert gain.value < 0.01
    assert warned(artifact, "base rate")


def test_an_artifact_says_where_it_comes_from_and_how_good_it_is(tmp_path: Path) -> None:
    artifact = fitted(tmp_path, questions=300)
    told = artifact.fit
    assert told is not None and told.answerability.held_out is not None
    assert (artifact.name, artifact.origin, artifact.backbone) == (
        "made-up",
        "fitted",
        "local:made-up:0123456789abcdef",
    )
    assert set(artifact.prompts) == {"system", "answer", "verifier"}
    assert artifact.score_scale == SCALE
    assert artifact.contaminated is False
    assert {partition(each) for each in told.fit_questions} == {Partition.XFIT}
    assert {partition(each) for each in told.selection_questions} == {Partition.XSEL}
    assert told.answerability.without_evidence == 300
    held_out = told.answerability.held_out
    assert (
        held_out.questions == artifact.counts["xhold"] == sum(partition(f"q{n}") is Partition.XHOLD for n in range(300))
    )
    assert held_out.states == 3 * held_out.questions
    gain = held_out.brier_gain
    assert gain.value == pytest.approx(held_out.brier_base_rate - held_out.brier.value, abs=2e-6)
    assert gain.low is not None and gain.high is not None and 0 < gain.low < gain.value < gain.high
    support = told.answerability.coefficients["logistic"]["support"]
    assert support.low is not None and support.high is not None and 0 < support.low < support.value < support.high
    assert told.answerability.coefficients["logistic"]["conflict"].low is None
    assert warned(artifact, "conflict", "weight 0")
    assert artifact.retrieval_value is not None and told.retrieval_value is not None


def test_the_order_of_the_file_changes_nothing(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", questions=80)
    before = fit_artifact(read_collection([run]), "f1")
    lines = (run / "episodes.jsonl").read_text().splitlines()
    (run / "episodes.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    after = fit_artifact(read_collection([run]), "f1")
    assert after.model_copy(update={"made": before.made}) == before


def test_an_artifact_that_saw_held_out_questions_cannot_say_that_it_did_not(tmp_path: Path) -> None:
    clean = fitted(tmp_path, questions=60)
    assert clean.fit is not None
    file = tmp_path / "mine.json"
    held_out = ids_of(Partition.XHOLD)[0]
    for name in ("fit_questions", "selection_questions"):
        told = clean.fit.model_copy(update={name: (*getattr(clean.fit, name), held_out)})
        seen = clean.model_copy(update={"fit": told})
        file.write_text(seen.model_dump_json())
        with pytest.raises(
            CalibrationError, match=r"mine\.json .*contaminated is false.* 1 of the questions.*held out"
        ):
            load_artifact(str(file))
        admitted = seen.model_copy(update={"contaminated": True})
        file.write_text(admitted.model_dump_json())
        assert load_artifact(str(file)) == admitted
        assert admitted.find_seen([held_out, "never asked"]) == (held_out,)


def test_with_nothing_to_choose_or_to_hold_out_it_says_so_and_reports_no_quality(tmp_path: Path) -> None:
    artifact = fitted(tmp_path, questions=ids_of(Partition.XFIT))
    assert artifact.answerability.kind == "logistic"
    assert warned(artifact, "xsel is empty") and warned(artifact, "xhold is empty")


def test_few_examples_are_warned_of_and_too_few_searches_leave_the_schedule(tmp_path: Path) -> None:
    artifact = fitted(tmp_path, questions=ids_of(*Partition, count=12), rounds=1)
    assert warned(artifact, "xfit", "answerable", "20")
    assert warned(artifact, "searches", "retrieval value")
    assert artifact.retrieval_value is None


def test_nothing_is_fitted_where_all_answers_came_out_alike(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"120 states .*wrong by f1"):
        fitted(tmp_path, questions=ids_of(Partition.XFIT), chance=lambda x: 0.0)
    with pytest.raises(CalibrationError, match=r"120 states .*right by f1"):
        fitted(tmp_path, questions=ids_of(Partition.XFIT), chance=lambda x: 1.0)
    with pytest.raises(CalibrationError, match=r"\(xfit\).* f1"):
        fitted(tmp_path, questions=ids_of(Partition.XHOLD))


def test_a_question_counts_once_however_many_states_it_has(tmp_path: Path) -> None:
    states, *_ = label_states(planted(tmp_path, questions=10).trajectories, "f1")
    first = states.questions[0]
    fewer = Examples(e for e in states.each if e.question != first or e.state.step.number == 1)
    for examples in (states, fewer):
        assert examples.weights.sum() == pytest.approx(10)
    block = next(fewer.resampled_weights(200))
    assert block.sum(axis=1) == pytest.approx(np.full(200, 10.0))
    # All states of a question are drawn together.
    second = [place for place, question in enumerate(fewer.questions) if question == states.questions[-1]]
    assert (np.ptp(block[:, second], axis=1) == 0).all()


def test_only_searches_that_were_really_made_from_a_wrong_state_make_a_pair(tmp_path: Path) -> None:
    _, (trajectory, *_) = read_trajectories(write_run(tmp_path, questions=1))

    def state(place: int, right: float | None, **other: Any) -> Any:
        scores = {} if right is None else {"f1": right}
        return change(trajectory.states[place], scores=scores, **other)

    helped = replace(trajectory, states=(state(0, 0.0), state(1, 1.0)))
    did_not = replace(trajectory, states=(state(0, 0.0), state(1, 0.4)))
    was_right = replace(trajectory, states=(state(0, 1.0), state(1, 1.0)))
    not_searched = replace(trajectory, states=(state(0, 0.0), state(1, 1.0, rounds=0)))
    not_asked = replace(trajectory, states=(state(0, 0.0), state(1, None)))
    rewrote = replace(trajectory, states=(state(0, 0.0, action=Action.REWRITE), state(1, 1.0)))
    found = label_searches([helped, did_not, was_right, not_searched, not_asked, rewrote], "f1")
    assert sorted(example.positive for example in found.each) == [False, True]


@pytest.mark.parametrize(
    ("other_run", "words"),
    [
        ({"model": "local:other:1"}, "model local:made-up:0123456789abcdef,.* local:other:1"),
        ({"verifier": "graded"}, "verifier structured,.* graded"),
        ({"retriever": "other"}, "retriever bm25 .* other:"),
        ({"budget": {"rounds": 3, "top_k": 9}}, "budget top_k 5,.* 9:"),
        ({"prompts": {"system": "0"}}, "prompt system .* 0:"),
    ],
)
def test_runs_that_were_not_made_alike_are_refused_with_both_values(
    tmp_path: Path, other_run: dict[str, Any], words: str
) -> None:
    one = write_run(tmp_path / "one", questions=2)
    for name in other_run.keys() & {"budget", "prompts"}:
        other_run[name] = json.loads((one / "run.json").read_text())[name] | other_run[name]
    other = write_run(tmp_path / "other", questions=2, **other_run)
    with pytest.raises(CalibrationError, match=words):
        read_collection([one, other])


def test_runs_that_were_made_alike_are_fitted_together(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", questions=ids_of(Partition.XFIT))
    other = write_run(tmp_path / "other", questions=ids_of(Partition.XHOLD), seed=1)
    artifact = fit_artifact(read_collection([one, other]), "f1")
    assert artifact.counts == {"xfit": 40, "xsel": 0, "xhold": 40}
    assert artifact.fit is not None and artifact.fit.datasets["made-up"].questions == 80


def test_the_label_is_the_judges_where_every_answer_was_judged(tmp_path: Path) -> None:
    assert planted(tmp_path / "plain", questions=2).default_label() == "f1"
    judged = planted(tmp_path / "judged", questions=200, judged=True)
    assert judged.default_label() == "judge"
    artifact = fit_artifact(judged, "judge")
    assert artifact.fit is not None and artifact.fit.judge is not None
    assert artifact.fit.judge.startswith("the judge, prompt ")


def test_a_run_without_answers_on_trial_has_nothing_to_fit(tmp_path: Path) -> None:
    run = write_run(tmp_path, questions=2)
    lines = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for step in (step for line in lines for step in line["steps"]):
        step["attempt"] = None
    for line in lines:
        del line["seal"]
    (run / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(CalibrationError, match=r"calibrate collect"):
        read_collection([run])


def test_on_few_questions_the_papers_kind_is_taken_whatever_they_say(tmp_path: Path) -> None:
    states, *_ = label_states(planted(tmp_path, questions=1000).trajectories, "f1")
    draw = random.Random(4)
    true = Examples(replace(e, positive=draw.random() < e.state.belief.sufficiency) for e in states.each)
    few = Examples(e for e in true.each if int(e.question_id.removeprefix("q")) < 40)
    kind, scores = choose_kind(fit_all_kinds(true), few)
    assert kind == "logistic" and set(scores) == {"platt", "logistic", "isotonic"}


def test_the_prior_is_chosen_on_questions_that_the_fit_has_not_seen(tmp_path: Path) -> None:
    states, *_ = label_states(planted(tmp_path, questions=30, chance=lambda x: 0.5).trajectories, "f1")
    columns = np.array([state.diagnostics.vector() for state in states.states])
    # Without any signal the strongest prior predicts best.
    assert fitting.choose_prior(columns, states) == 1.0


def test_with_seven_columns_and_36_questions_no_fit_shrinks_its_slopes_by_a_fifth(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(7)
    shrinks = []
    for seed in range(30):
        found, *_ = label_states(planted(tmp_path / str(seed), questions=36, seed=seed).trajectories, "f1")
        conflict = draw.random(len(found))  # the planted one does not vary
        states = Examples(
            replace(each, state=change(each.state, diagnostics=replace(each.state.diagnostics, conflict=float(value))))
            for each, value in zip(found.each, conflict, strict=True)
        )
        columns = np.array([state.diagnostics.vector() for state in states.states])
        fit = fit_all_kinds(states).kinds["logistic"]
        assert isinstance(fit, LogisticAnswerability)
        plain = LogisticRegression(C=np.inf, max_iter=2000).fit(columns, states.outcomes, sample_weight=states.weights)
        ours, theirs = (np.linalg.norm(w * columns.std(axis=0)) for w in (fit.weights.vector(), plain.coef_[0]))
        shrinks.append(1 - ours / theirs)
    assert max(shrinks) < 0.2
    # A prior is still chosen: where nothing is lost by it, the slopes are a little shorter.
    assert np.median(shrinks) > 0.02


def test_where_columns_separate_the_outcomes_the_slopes_stay_finite() -> None:
    draw = np.random.default_rng(2)
    ordinary = studied.state()
    examples = [
        Example("d", f"q{n}", change(ordinary, diagnostics=Diagnostics(*draw.random(7).tolist())), n % 2 == 0)
        for n in range(12)
    ]
    separable = Examples(
        replace(
            each,
            state=change(
                each.state, diagnostics=replace(each.state.diagnostics, support=0.5 + (0.3 if each.positive else -0.3))
            ),
        )
        for each in examples
    )
    columns = np.array([state.diagnostics.vector() for state in separable.states])
    assert fitting.choose_prior(columns, separable) == 100.0
    fit = fit_all_kinds(separable).kinds["logistic"]
    assert isinstance(fit, LogisticAnswerability) and 5 < fit.weights.support < 100


def test_a_diagnostic_that_misleads_on_another_set_has_no_weight() -> None:
    draw = np.random.default_rng(3)
    ordinary = studied.state()
    examples = []
    for place, dataset in enumerate(("cities", "rivers", "ships", "towns")):
        # Within a set relevance helps a little, but it lies elsewhere in every set.
        level, rate = 0.15 + 0.2 * place, (0.7, 0.2, 0.3, 0.8)[place]
        for number in range(80):
            right = bool(draw.random() < rate)
            seen = replace(
                ordinary.diagnostics,
                relevance=float(level + (0.03 if right else -0.03) + draw.normal(0, 0.03)),
                uncertainty=float(0.7 - 0.4 * right + draw.normal(0, 0.15)),
            )
            examples.append(Example(dataset, f"{dataset}-{number}", change(ordinary, diagnostics=seen), right))
    several = fit_all_kinds(Examples(examples))
    fit = several.kinds["logistic"]
    assert isinstance(fit, LogisticAnswerability)
    assert fit.weights.relevance == 0.0 and fit.weights.uncertainty < -3
    assert several.misleading == ("relevance",)
    # Of one set none can be left out: what helps within it counts.
    one = fit_all_kinds(Examples(example for example in examples if example.dataset == "cities"))
    alone = one.kinds["logistic"]
    assert isinstance(alone, LogisticAnswerability) and alone.weights.relevance > 1
    assert one.misleading == ()


def test_a_fit_of_one_outcome_is_not_a_number_and_a_weight_of_0_leaves_an_example_out() -> None:
    generator = np.random.default_rng(3)
    columns = generator.random((80, 2))
    outcomes = (columns[:, 0] + generator.normal(0, 0.4, 80) > 0.5).astype(float)
    weights = np.array([outcomes, np.arange(80) < 60])
    alike, part = fitting.refit_logistic(columns, outcomes, weights)
    assert np.isnan(alike).all()
    single = fitting.fit_logistic(columns[:60], outcomes[:60], np.ones(60))
    assert part == pytest.approx([single.intercept, *single.weights], abs=2e-6)


def test_own_labels_move_a_fit_by_as_much_as_they_are_worth(tmp_path: Path) -> None:
    shipped = LogisticAnswerability(INTERCEPT + 2.0, replace(WEIGHTS, conflict=0.0))
    states, *_ = label_states(planted(tmp_path, questions=600).trajectories, "f1")

    def updated(count: int) -> LogisticAnswerability:
        return fitting.update_answerability(shipped, Examples(states.each[:count]))

    assert fitting.update_answerability(shipped, Examples(())) == shipped
    few, many = updated(6), updated(len(states))
    distance = [abs(each.intercept - INTERCEPT) for each in (shipped, few, many)]
    assert distance == sorted(distance, reverse=True) and distance[2] < 0.7
    assert many.weights.conflict == 0.0, "a diagnostic that the shipped fit leaves out stays out"


def test_the_questions_to_fit_and_to_choose_on_can_be_given(tmp_path: Path) -> None:
    train = write_run(tmp_path / "train", questions=[f"train{k}" for k in range(60)])
    dev = write_run(tmp_path / "dev", questions=[f"dev{k}" for k in range(30)], seed=1)
    artifact = fit_artifact(read_collection([train], [dev]), "f1")
    assert artifact.fit is not None
    assert (len(artifact.fit.fit_questions), len(artifact.fit.selection_questions)) == (60, 30)
    assert artifact.counts == {"xfit": 60, "xsel": 30, "xhold": 0}
    # The hash would hold out some of them: what was given counts, and the file can be read again.
    assert not artifact.contaminated
    assert Artifact.model_validate_json(artifact.model_dump_json()) == artifact
    with pytest.raises(CalibrationError, match="60 questions are in a run to fit on and in one to choose on"):
        read_collection([train], [write_run(tmp_path / "again", questions=[f"train{k}" for k in range(60)])])
