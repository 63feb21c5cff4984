"""Tries thresholds of every method that has some, on the same train questions and with the same effort.

    python -m benchmarks.choose_thresholds run --data ../shared/data/hotpotqa ../shared/data/musique --questions 20 \
        --methods crag --out FOLDER
    python -m benchmarks.decide episodes FOLDER/crag_* --file docs/results/crag_thresholds.csv
    python -m benchmarks.choose_thresholds report docs/results/crag_thresholds.csv

Each method is run with as many settings of its options as every other one, on the same questions. The defaults stay,
unless another setting is shown to have more F1 on them: the 95 % interval of the paired difference lies above zero.
Replies are cached, and a run that is stopped goes on where it was. BeliefRAG has its own command, `beliefrag tune`,
which chooses on recorded states of the same questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from beliefrag import bench
from beliefrag.runs.estimate import Estimate
from beliefrag.runs.statistics import compare_over_datasets, mean_over_datasets
from beliefrag.settings import DEFAULT_MODEL, load_settings
from benchmarks.decide.episodes import EpisodeRow, measure_rows, read_rows

__all__ = ["SETTINGS", "TriedSetting", "compare_settings", "format_settings"]

SETTINGS = {
    "adaptive_k": ["", "buffer=0", "buffer=2", "buffer=5,tail=0.0", "buffer=9"],
    "self_rag": ["", "threshold=0.05", "threshold=0.1", "threshold=0.35", "threshold=0.5"],
    # Around the grades of 125 passages: supporting ones lie at 0.49 to 0.77 (their tenths), others at 0.32 to 0.67.
    "crag": [
        "",
        "correct=0.7,incorrect=0.45",
        "correct=0.65,incorrect=0.45",
        "correct=0.65,incorrect=0.5",
        "correct=0.6,incorrect=0.5",
    ],
    "flare": ["", "confident=0.6", "confident=0.4", "confident=0.4,masked=0.2", "confident=0.2,masked=0.1"],
    "uncertainty_gate": ["", "sure=0.3", "sure=0.7", "sure=0.8", "sure=0.9"],
}
"""Five for each: the defaults, and four others."""


_MEASURES = ("f1", "tokens")


@dataclass(frozen=True, slots=True)
class TriedSetting:
    """What a method has with one setting of its options, and how that differs from its defaults."""

    method: str
    options: str
    """Empty for the defaults."""
    questions: int
    f1: Estimate
    tokens: Estimate
    gain: Estimate | None = None
    """F1 less that of the defaults on the same questions; None for the defaults themselves."""

    @property
    def is_shown_to_be_better(self) -> bool:
        """Whether it should take the place of the defaults; fewer than 20 questions of a set cannot show it."""
        gain = self.gain
        return gain is not None and gain.low is not None and gain.low > 0.0 and not gain.has_few_questions


def compare_settings(rows: Iterable[EpisodeRow]) -> Iterator[TriedSetting]:
    """Compare each setting with the defaults of its method, on the questions that no setting failed.

    The runs are named as `run_settings` names them.

    Raises:
        ValueError: A method was run with its defaults, but not with each of the other settings.
    """
    finished: dict[str, dict[tuple[str, str], EpisodeRow]] = {}
    for row in rows:
        finished.setdefault(row.run, {})
        if row.finished:
            finished[row.run][row.dataset, row.question] = row
    for method, settings in SETTINGS.items():
        names = [_name_run(method, place) for place in range(len(settings))]
        if names[0] not in finished:
            continue
        if missing := [name for name in names if name not in finished]:
            raise ValueError(f"The table has no run {missing[0]}: run all settings of {method} first.")
        shared = set.intersection(*(set(finished[name]) for name in names))
        measured = [measure_rows([finished[name][key] for key in sorted(shared)], _MEASURES) for name in names]
        for options, own in zip(settings, measured, strict=True):
            f1, tokens = (mean_over_datasets({name: own[name][each] for name in own}) for each in _MEASURES)
            compared = compare_over_datasets(own, measured[0]) if options else None
            gain = compared.measures["f1"].difference if compared else None
            yield TriedSetting(method, options, len(shared), f1, tokens, gain)


def format_settings(tried: Iterable[TriedSetting]) -> str:
    """Return the table of the settings."""
    lines = ["| method | options | n | F1 | tokens | F1 less that of the defaults |", "|---|---|---|---|---|---|"]
    for each in tried:
        gain = "" if each.gain is None else f"{each.gain.value:+.3f}"
        if each.gain is not None and each.gain.low is not None:
            gain += f" ({each.gain.low:+.3f} to {each.gain.high:+.3f})"
        cells = (each.method, each.options or "defaults", each.questions, f"{each.f1.value:.3f}")
        lines.append(f"| {' | '.join(map(str, cells))} | {each.tokens.value:,.0f} | {gain} |")
    return "\n".join(lines)


def run_settings(
    methods: Sequence[str], data: Sequence[str], questions: int, out: Path, *, model: str = DEFAULT_MODEL
) -> None:
    """Run every setting of these methods on the first train questions of each set, or continue it."""
    settings = load_settings({"model": model}).settings
    for method in methods:
        for place, options in enumerate(SETTINGS[method]):
            spec = bench.RunSpec(
                data=tuple(data),
                methods=(f"{method}:{options}" if options else method,),
                n=questions,
                splits=("train",),
                judge=False,
            )
            print(bench.run(spec, out=out / _name_run(method, place), settings=settings), flush=True)


def _name_run(method: str, place: int) -> str:
    return f"{method}_{place}"


def main() -> None:
    """Run the settings, or print the table of a file of episodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--data", nargs="+", required=True)
    running.add_argument("--questions", type=int, default=20, help="of each set")
    running.add_argument("--model", default=DEFAULT_MODEL)
    running.add_argument("--methods", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    running.add_argument("--out", type=Path, required=True)
    commands.add_parser("report").add_argument("episodes", type=Path, help="a table of episodes without texts")
    given = parser.parse_args()
    if given.command == "report":
        print(format_settings(compare_settings(read_rows(given.episodes))))
    else:
        run_settings(given.methods, given.data, given.questions, given.out, model=given.model)


if __name__ == "__main__":
    main()
