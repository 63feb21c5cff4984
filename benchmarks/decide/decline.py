"""Chooses below which probability an answer is not given, from reads of train questions with and without support.

    python -m benchmarks.decide.decline lean.json reads_a reads_b without

The lowest threshold at which at most one in five questions without support is answered. Each set is looked at with a
fit of the calibration's diagnostics to the others, so that no question says anything about itself. No model is asked.
"""

from __future__ import annotations

import argparse
from dataclasses import astuple
from pathlib import Path

import numpy as np

from beliefrag.calibration import load_artifact
from beliefrag.calibration.examples import label_states, read_collection
from beliefrag.calibration.fitting import refit_logistic
from beliefrag.policy import LogisticAnswerability

_MOST_ANSWERED = 0.2
_PRIOR = 10.0
_GRID = [step / 100 for step in range(20, 71)]
_WITHOUT = "_unanswerable"


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calibration", type=Path)
    parser.add_argument("reads", type=Path, nargs="+", help="folders that `beliefrag calibrate collect` made")
    chosen = parser.parse_args()
    fit = load_artifact(chosen.calibration).answerability
    assert isinstance(fit, LogisticAnswerability)
    kept = [place for place, weight in enumerate(astuple(fit.weights)) if weight]
    examples, _ = label_states(read_collection(chosen.reads).trajectories, "f1")
    columns = np.array([state.diagnostics.vector() for state in examples.states])[:, kept]
    sets = np.array([each.dataset.removesuffix(_WITHOUT) for each in examples.each])
    without = np.array([each.dataset.endswith(_WITHOUT) for each in examples.each])
    right = (examples.outcomes > 0) & ~without
    unseen = np.array([sets == name for name in sorted(set(sets))])
    fitted = refit_logistic(columns, examples.outcomes, examples.weights * ~unseen, _PRIOR)
    logits = fitted[:, :1] + fitted[:, 1:] @ columns.T
    told = (1 / (1 + np.exp(-logits)))[unseen.argmax(axis=0), np.arange(len(sets))]
    print(f"{without.sum()} questions without support, {right.sum()} right answers of {(~without).sum()} others")
    for threshold in _GRID:
        given = told >= threshold
        answered = given[without].mean()
        line = (
            f"{threshold:.2f}: {answered:.2f} without support answered, {given[right].mean():.2f} of right ones given"
        )
        if answered <= _MOST_ANSWERED:
            print(f"{line}: the lowest")
            return
        print(line)


if __name__ == "__main__":
    main()
