from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from beliefrag.calibration.policy_replay import CachedReplay, replay_policy
from beliefrag.calibration.tuning import ThresholdGrid
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.runs.partitions import Partition
from tests.support.recordings import Seen, ids, planted_artifact, trajectory

FIT = planted_artifact().calibration(ScoreScale(0.0, 1.0))
ONE = ids(Partition.XSEL, 1)[0]
# Values of the grid itself come up often: a threshold that equals a number is where an end changes.
SHARE = st.sampled_from([0.05, 0.1, 0.2, 0.5, 0.55]) | st.floats(0.02, 0.98)
STATES = st.lists(st.builds(Seen, SHARE, st.just(1.0), SHARE, st.integers(0, 1)), min_size=4, max_size=4)


@settings(max_examples=25, deadline=None)
@given(STATES)
def test_every_point_of_the_grid_ends_as_a_walk_of_its_own_does(seen: list[Seen]) -> None:
    recordings = [trajectory(ONE, *seen), trajectory(ONE, *seen, method="survey_uncorrected")]
    walks = CachedReplay(recordings, FIT)
    for thresholds in ThresholdGrid(answer=(0.05, 0.3, 0.5, 0.55, 0.9)).points(Thresholds()):
        own = replay_policy(recordings, FIT.answerability, FIT.retrieval_value, thresholds)
        assert walks.end(thresholds) == own
