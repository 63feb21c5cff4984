import numpy as np
import pytest

from beliefrag.calibration.quality import auc, brier, expected_calibration_error, reliability_curve

DRAW = np.random.default_rng(3)
# Rounded, so that there are ties.
P = DRAW.random(400).round(2)
Y = (DRAW.random(400) < P).astype(float)
WEIGHTS = DRAW.random(400)
EVEN = np.ones(400)


@pytest.mark.parametrize("weights", [EVEN, WEIGHTS])
def test_brier_and_auc_are_those_of_scikit_learn(weights: np.ndarray) -> None:
    # Slow to load, and every process of the tests loads every file.
    from sklearn.metrics import brier_score_loss, roc_auc_score

    assert brier(P, Y, weights) == pytest.approx(brier_score_loss(Y, P, sample_weight=weights))
    assert auc(P, Y, weights) == pytest.approx(roc_auc_score(Y, P, sample_weight=weights))


def test_rows_of_weights_give_a_number_each() -> None:
    both = np.stack([EVEN, WEIGHTS])
    for measure in (brier, auc, expected_calibration_error):
        assert measure(P, Y, both) == pytest.approx([float(measure(P, Y, EVEN)), float(measure(P, Y, WEIGHTS))])


def test_the_calibration_error_has_the_value_worked_by_hand() -> None:
    p = np.array([0.0, 0.05, 0.1, 0.72, 0.78, 0.95, 1.0])
    y = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    weights = np.array([1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 3.0])
    # Bins and weights: [0, .1) 2, [.1, .2) 2, [.7, .8) 2, [.9, 1] 4, of 10 in all. Distances, mean p and mean y:
    # |.025 - .5|, |.1 - 0|, |.75 - 1|, |(.95 + 3) / 4 - 1 / 4|.
    expected = 0.2 * 0.475 + 0.2 * 0.1 + 0.2 * 0.25 + 0.4 * 0.7375
    assert expected_calibration_error(p, y, weights) == pytest.approx(expected)
    curve = reliability_curve(p, y, weights)
    assert [(each.low, each.high, each.states, each.share) for each in curve] == [
        (0.0, 0.1, 2, 0.2),
        (0.1, 0.2, 1, 0.2),
        (0.7, 0.8, 2, 0.2),
        (0.9, 1.0, 2, 0.4),
    ]
    assert (curve[3].predicted, curve[3].observed) == pytest.approx((3.95 / 4, 0.25))
    assert sum(each.share * abs(each.predicted - each.observed) for each in curve) == pytest.approx(expected)


def test_where_all_came_out_alike_there_is_no_auc() -> None:
    rows = auc(P, Y, np.stack([EVEN, Y]))
    assert np.isfinite(rows[0]) and np.isnan(rows[1])
