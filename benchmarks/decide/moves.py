"""What the moves of lean bring on train questions, by how unsure the first read was.

    python -m benchmarks.decide.moves states_a states_b --json docs/results/decide_moves.json

The folders are those of `beliefrag calibrate collect --method lean`, which makes every move where the first read is
unsure. The file holds a row for each move and question, without texts. No model is asked.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from beliefrag.calibration.collection import read_collection
from beliefrag.methods.lean import Move
from beliefrag.runs.states import Trajectory
from beliefrag.runs.statistics import mean_estimate

__all__ = ["MadeMove", "find_moves", "format_moves"]

_BANDS = ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.0, 1.0))
"""How sure the first read was. The last one holds all."""
_RIGHT = 0.5


@dataclass(frozen=True, slots=True)
class MadeMove:
    """One move on one question."""

    move: str
    dataset: str
    question: str
    sure: float
    """How sure the first read was: 1 less its uncertainty."""
    first: float
    """The F1 of the first read."""
    after: float
    """The F1 of the read that the move brought."""
    likelier: float
    """The F1 of the surer one of these two reads, which is what lean would answer."""
    tokens: int
    """What the move cost."""


def find_moves(trajectories: Iterable[Trajectory]) -> Iterator[MadeMove]:
    """Yields each move that was made, beside the first read of its question."""
    for trajectory in trajectories:
        first = next((state for state in trajectory.states if state.retained), None)
        for before, after in pairwise(trajectory.states):
            # Where the query writer finds nothing missing, a search brings no read.
            if first is None or before.branch not in set(Move) or "f1" not in after.scores:
                continue
            surer = min((first, after), key=lambda state: state.diagnostics.uncertainty)
            yield MadeMove(
                move=before.branch,
                dataset=trajectory.dataset,
                question=trajectory.question_id,
                sure=round(1.0 - first.diagnostics.uncertainty, 6),
                first=round(first.scores["f1"], 6),
                after=round(after.scores["f1"], 6),
                likelier=round(surer.scores["f1"], 6),
                tokens=after.tokens - before.tokens,
            )


def format_moves(made: Sequence[MadeMove]) -> str:
    """Gives a table: a row for each move and each band of how sure the first read was."""
    heads = ["move", "sure of the first read", "n", "F1 of the first read", "after the move", "difference"]
    heads += ["of the likelier read", "wrong made right", "right made wrong", "tokens"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for move in Move:
        for low, high in _BANDS:
            own = [each for each in made if each.move == move and low <= each.sure < high]
            if own:
                lines.append(f"| {move} | {low} to {high} | {_format_band(own)} |")
    return "\n".join(lines)


def _format_band(own: Sequence[MadeMove]) -> str:
    gain = mean_estimate({f"{each.dataset} {each.question}": each.after - each.first for each in own})
    wrong = [each for each in own if each.first < _RIGHT]
    right = [each for each in own if each.first >= _RIGHT]
    cells = (
        str(len(own)),
        *(f"{statistics.fmean(values):.3f}" for values in ([each.first for each in own], [each.after for each in own])),
        f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})",
        f"{statistics.fmean(each.likelier for each in own):.3f}",
        f"{sum(each.after >= _RIGHT for each in wrong)} of {len(wrong)}",
        f"{sum(each.after < _RIGHT for each in right)} of {len(right)}",
        f"{statistics.fmean(each.tokens for each in own):,.0f}",
    )
    return " | ".join(cells)


def main() -> None:
    """Reads the command line, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("states", type=Path, nargs="+", help="folders that `beliefrag calibrate collect` made")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    made = sorted(find_moves(read_collection(given.states).trajectories), key=lambda each: (each.move, each.dataset))
    print(format_moves(made))
    if given.json:
        lines = ",\n ".join(json.dumps(asdict(each)) for each in made)
        given.json.write_text(f"[\n {lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
