from pathlib import Path

from beliefrag.bench.setup import RunSpec
from beliefrag.cli.bench import carry_out_run
from beliefrag.runs.partitions import partition
from beliefrag.runs.states import read_trajectories
from beliefrag.settings import Settings
from beliefrag.types import Action
from tests.support.bench_runs import records, write_dataset, write_script


def survey(tmp_path: Path) -> Path:
    data = write_dataset(tmp_path, "north", questions=3)
    settings = Settings(model=write_script(tmp_path), verifier="structured", cache=False)
    wanted = RunSpec((data,), ("survey",), judge=False)
    assert carry_out_run(settings, wanted, tmp_path / "run", yes=True) == 0
    return tmp_path / "run"


def test_the_states_of_a_survey_come_back_from_its_file(tmp_path: Path) -> None:
    run, trajectories = read_trajectories(survey(tmp_path))
    assert run.methods == ("survey",)
    assert len(trajectories) == 3
    by_id = {trajectory.question_id: trajectory for trajectory in trajectories}
    right, partly, wrong = (by_id[f"north-q{k}"] for k in range(3))
    assert right.partition == partition("north-q0")
    first, second = right.states[:2]
    assert (first.rounds, first.retained, first.actions, first.action) == (0, 0, (), Action.RETRIEVE)
    assert (second.rounds, second.retained, second.actions) == (1, len(second.actions) * 5, (Action.RETRIEVE,))
    assert right.states[-1].answer == "Larvik" and right.states[-1].correct("exact_match")
    assert partly.states[-1].correct("cover") and not partly.states[-1].correct("exact_match")
    assert wrong.states[-1].correct("f1") is False
    assert wrong.states[-1].correct("judge") is None


def test_the_query_writers_word_that_nothing_is_missing_is_part_of_the_state(tmp_path: Path) -> None:
    _, trajectories = read_trajectories(survey(tmp_path))
    for trajectory in trajectories:
        last = trajectory.states[-1]
        assert last.action is Action.STOP
        assert last.nothing_missing == (Action.RETRIEVE not in last.step.legal and last.rounds < 3)


def test_the_judge_has_a_word_on_every_answer_on_trial_and_on_each_once(tmp_path: Path) -> None:
    data = write_dataset(tmp_path, "north", questions=2)
    settings = Settings(model=write_script(tmp_path), verifier="structured", cache=False)
    wanted = RunSpec((data,), ("survey",))
    assert carry_out_run(settings, wanted, tmp_path / "run", yes=True) == 0
    _, trajectories = read_trajectories(tmp_path / "run")
    verdicts = {t.question_id: {state.correct("judge") for state in t.states} for t in trajectories}
    assert verdicts == {"north-q0": {True}, "north-q1": {False}}
    asked = [episode.verdict and episode.verdict.usage.calls for episode in records(tmp_path / "run")]
    # All states share one answer.
    assert asked == [1, 1]
