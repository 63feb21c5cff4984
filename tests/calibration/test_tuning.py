"""Tuning on made-up recordings whose best thresholds are known beforehand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from beliefrag.calibration import Artifact, load_artifact
from beliefrag.calibration.tuning import Setting, Tuning, TuningError, tune_thresholds
from beliefrag.policy import Spent, Thresholds, correction_fits, legal_actions
from beliefrag.record import Step
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.record import RunRecord
from beliefrag.runs.states import State, Trajectory
from beliefrag.runs.statistics import mean_estimate
from beliefrag.settings import load_settings
from beliefrag.types import Action, Attempt, Belief, Budget, Diagnostics
from tests.support.run_records import make_run_record

STEP = 1_000
"""Tokens from one state to the next; answering costs a tenth."""
_SLOPE = 10.0
_NO_WEIGHT = Diagnostics(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def planted_artifact(**changes: object) -> Artifact:
    """Return a calibration for which the answerability of a `Seen` state is the one that was planted."""
    base = load_artifact("published").model_dump()
    fit = {"intercept": -_SLOPE / 2, "weights": asdict(replace(_NO_WEIGHT, support=_SLOPE))}
    return Artifact.model_validate(
        {**base, "name": "planted", "answerability": {**base["answerability"], **fit}, "retrieval_value": None}
    ).model_copy(update=changes)


@dataclass(frozen=True)
class Seen:
    """One state: its answerability, and the F1 of its answer (None where no answer was tried)."""

    answerability: float
    f1: float | None
    novelty: float = 1.0
    flagged: int = 0
    action: Action = Action.RETRIEVE
    """What was done next."""
    reason: str = ""


def trajectory(question_id: str, *seen: Seen, dataset: str = "d", method: str = "survey") -> Trajectory:
    """Return a recording that does what its states say; the last one always ends it."""
    return Trajectory(dataset, method, question_id, tuple(_states(seen)))


def ids(part: Partition, n: int, start: int = 0) -> list[str]:
    """Return the first so many made-up question ids of a part."""
    own = (f"q{k}" for k in itertools.count(start) if partition(f"q{k}") is part)
    return list(itertools.islice(own, n))


def recorded(
    trajectories: Iterable[Trajectory], thresholds: Thresholds = Thresholds()
) -> tuple[RunRecord, list[Trajectory]]:
    """Return the record of a run with these recordings, and the recordings."""
    own = list(trajectories)
    asked = {
        name: sorted({each.question_id for each in own if each.dataset == name})
        for name in sorted({each.dataset for each in own})
    }
    methods = tuple(dict.fromkeys(each.method for each in own)) or ("survey",)
    return make_run_record(asked, methods, thresholds=asdict(thresholds)), own


def _states(seen: Sequence[Seen]) -> Iterable[State]:
    budget = Budget()
    rounds = 0
    actions: tuple[Action, ...] = ()
    for place, each in enumerate(seen):
        last = place == len(seen) - 1
        action = Action.STOP if last else each.action
        tokens = place * STEP
        spent = Spent(rounds, len(actions), tokens)
        step = Step(
            number=place,
            action=action,
            reason=each.reason,
            legal=legal_actions(budget, spent, has_evidence=rounds > 0, has_query=rounds > 0),
            diagnostics=replace(
                _NO_WEIGHT,
                support=0.5 + math.log(each.answerability / (1 - each.answerability)) / _SLOPE,
                novelty=each.novelty,
            ),
            belief=Belief(0.5, 0.9, 0.0, 0.5, 0.5, 0.0),
            tokens=tokens,
            attempt=None if each.f1 is None else Attempt("it", STEP // 10, {"f1": each.f1}),
        )
        yield State(
            step=step,
            rounds=rounds,
            retained=5 * bool(rounds),
            flagged=each.flagged,
            actions=actions,
            correction_fits=correction_fits(budget, spent),
            nothing_missing=False,
        )
        rounds += action is Action.RETRIEVE
        actions = (*actions, action)


XSEL, XHOLD = Partition.XSEL, Partition.XHOLD
OWN = Thresholds(retrieval_value=0.05)
BEGIN = Seen(0.02, 0.0)
FIT = planted_artifact()
ONE = ids(XSEL, 1)[0]


def tuned(trajectories: Iterable[Trajectory], own: Thresholds = OWN, **options: Any) -> Tuning:
    return tune_thresholds(*recorded(trajectories, own), FIT, **options)


def easy(name: str, dataset: str = "d") -> Trajectory:
    """Right after the first search, spoilt by the third."""
    return trajectory(name, BEGIN, Seen(0.82, 1.0), Seen(0.82, 1.0), Seen(0.99, 0.4), dataset=dataset)


def hard(name: str, dataset: str = "d") -> Trajectory:
    """Right after the second search, spoilt by the third."""
    return trajectory(name, BEGIN, Seen(0.42, 0.0), Seen(0.82, 1.0), Seen(0.99, 0.4), dataset=dataset)


def mixed(part: Partition) -> Iterator[Trajectory]:
    """Half easy, half hard: an answer threshold above 0.42 and up to 0.82 is best, with two searches allowed."""
    for place, name in enumerate(ids(part, 20)):
        yield (easy if place % 2 else hard)(name)


def cost(searches: float) -> float:
    return searches * STEP + STEP // 10


def result(setting: Setting | None) -> tuple[float, float]:
    assert setting and setting.quality and setting.tokens
    return setting.quality.value, setting.tokens.value


def test_the_planted_best_point_is_found_and_reported_on_held_out_questions() -> None:
    own = Thresholds(answer=0.9, retrieval_value=0.05)
    found = tuned([*mixed(XSEL), *mixed(XHOLD)], own, max_tokens=2_000)
    assert found.chosen and found.held_out and found.differences
    assert result(found.chosen) == (1.0, cost(1.5))
    # Every answer threshold above 0.42 and up to 0.82 gives that; 0.8 is the nearest to what the run had.
    assert found.chosen.thresholds == Thresholds(answer=0.8, retrieval_value=0.05)
    chosen, current = found.held_out
    assert result(chosen)[0] == 1.0 and result(current)[0] == pytest.approx(0.4)
    assert (chosen.answered, chosen.error, current.error) == (1.0, 0.0, 1.0)
    quality, tokens = found.differences
    assert quality.value == pytest.approx(0.6)
    assert tokens.value == pytest.approx(-1_500)
    assert tokens.low is not None and tokens.high is not None
    assert -2_000 <= tokens.low < -1_500 < tokens.high <= -1_000


def test_the_frontier_is_what_nothing_beats_without_costing_more() -> None:
    found = tuned(mixed(XSEL))
    assert [result(each) for each in found.frontier] == [(0.5, cost(1)), (1.0, cost(1.5))]
    assert (found.chosen, found.held_out) == (None, None)
    assert result(tuned(mixed(XSEL), max_tokens=cost(1.5) - 1).chosen) == (0.5, cost(1))
    assert result(tuned(mixed(XSEL), min_quality=0.5).chosen) == (0.5, cost(1))
    assert result(tuned(mixed(XSEL), min_quality=0.51).chosen)[0] == 1.0
    assert tuned(mixed(XSEL), max_tokens=cost(1) - 1).chosen is None
    assert tuned(mixed(XSEL), min_quality=1.01).chosen is None


def test_the_choice_is_the_same_whatever_the_held_out_questions_hold() -> None:
    known = tuned([*mixed(XSEL), *mixed(XHOLD)], max_tokens=1_800)
    spoilt = [trajectory(name, BEGIN, Seen(0.42, 1.0), Seen(0.82, 0.2), Seen(0.99, 0.2)) for name in ids(XHOLD, 20)]
    other = tuned([*mixed(XSEL), *spoilt], max_tokens=1_800)
    assert known.chosen == other.chosen and known.frontier == other.frontier
    assert other.held_out and result(other.held_out[0])[0] == pytest.approx(0.2)


def test_one_question_with_an_unrecorded_step_leaves_the_setting_without_a_result() -> None:
    names = ids(XHOLD, 6)
    untried = [trajectory(name, BEGIN, Seen(0.9, None), Seen(0.9, 1.0)) for name in names[:2]]
    found = tuned([*mixed(XSEL), *untried, *(hard(name) for name in names[2:])], max_tokens=2_000)
    assert found.held_out and found.differences is None
    assert (found.held_out[0].quality, found.held_out[0].unrecorded, found.held_out[0].questions) == (None, 2, 6)


def test_datasets_weigh_alike_and_intervals_are_those_of_the_bench() -> None:
    names = ids(XSEL, 24)
    one = [easy(name) for name in names[:4]]
    grid: dict[str, Any] = {"answer": (0.3,), "retrieval_value": (0.05,)}
    uneven = tuned([*one, *(hard(name) for name in names[4:])], **grid).settings[0]
    assert uneven.quality == mean_estimate({name: float(name in names[:4]) for name in names})
    both = tuned([*one, *(hard(name, "e") for name in names[4:])], **grid).settings[0]
    assert both.quality and both.quality.value == pytest.approx(0.5)
    assert (both.quality.questions, both.quality.has_few_questions) == (24, True)


def test_an_abstention_scores_nothing_and_pays_for_no_answer() -> None:
    found = tuned((hard(name) for name in ids(XSEL, 3)), Thresholds(), answer=(0.5,), retrieval_value=(0.6,)).settings[
        0
    ]
    # No search is worth 0.6, so nothing is found, and with nothing found it abstains.
    assert result(found) == (0.0, 0.0)
    assert (found.answered, found.error) == (0.0, None)


def test_corrections_are_those_of_the_run() -> None:
    flagged = Seen(0.4, 0.0, flagged=1, action=Action.VERIFY, reason="correct-flagged")
    rewritten = Seen(0.4, 0.0, action=Action.REWRITE, reason="finish-correction")
    recording = trajectory(ONE, BEGIN, flagged, rewritten, Seen(0.4, 0.0), Seen(0.9, 1.0))
    assert result(tuned([recording], answer=(0.5,)).settings[0])[0] == 1.0
    with pytest.raises(TuningError, match="1 of 1 questions"):
        tuned(
            [recording], Thresholds(retrieval_value=0.05, correct_flagged=False), answer=(0.5,), retrieval_value=(0.05,)
        )


def test_an_episode_shows_what_ending_earlier_gives_and_nothing_beyond_its_end() -> None:
    own = trajectory(ONE, BEGIN, Seen(0.45, 0.2), Seen(0.62, 1.0), method="beliefrag")
    assert [result(each)[0] for each in tuned([own], answer=(0.4, 0.6), retrieval_value=(0.05,)).settings] == [0.2, 1.0]
    with pytest.raises(TuningError) as caught:
        tuned([own], answer=(0.7,), retrieval_value=(0.05,))
    assert "'beliefrag calibrate collect'" in caught.value.remedy


def test_what_is_missing_is_noted_or_refused() -> None:
    run, own = recorded(mixed(XSEL), OWN)
    assert tune_thresholds(run, own, FIT).notes == ()
    (note,) = tune_thresholds(run, own, planted_artifact(contaminated=True)).notes
    assert "xhold" in note
    assert any(note.startswith("INCOMPLETE: 2 of 20") for note in tune_thresholds(run, own[2:], FIT).notes)
    with pytest.raises(TuningError, match="measure judge"):
        tune_thresholds(run, own, FIT, measure="judge")
    with pytest.raises(TuningError, match=r"None of the 3 .* xsel"):
        tuned(easy(name) for name in ids(XHOLD, 3))


def test_the_settings_are_accepted_and_mean_the_chosen_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    own = Thresholds(0.35, 0.6, 0.25, 0.05, 0.0, False, 0.1, 0.9, 0.4, merge_rewriter=False)
    found = tuned(mixed(XSEL), own, max_tokens=2_000)
    file = tmp_path / "beliefrag.toml"
    file.write_text(found.to_toml(), encoding="utf-8")
    assert found.chosen and load_settings(config=file).settings.thresholds == found.chosen.thresholds
