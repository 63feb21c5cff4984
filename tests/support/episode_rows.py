"""Rows of a table of episodes, for the scripts that work numbers out of such tables."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.decide.episodes import EpisodeRow


def make_rows(
    run: str, method: str, dataset: str, n: int, *, f1: Sequence[float] = (1.0, 0.0), tokens: int = 400
) -> list[EpisodeRow]:
    """Rows with these F1 in turns, and tokens that grow by one."""
    return [
        EpisodeRow(
            run=run,
            method=method,
            dataset=dataset,
            question=f"q{number:02}",
            outcome="answered",
            actions="RETRIEVE ANSWER",
            answerability=0.9 - number / 100,
            exact_match=0.0,
            f1=f1[number % len(f1)],
            cover=0.0,
            evidence_recall=1.0,
            tokens=tokens + number,
            tokens_in=tokens,
            tokens_out=number,
            tokens_by_purpose=f"answer={tokens + number}",
            calls=1,
            rounds=1.0,
            least_token=0.8 - number / 100,
        )
        for number in range(n)
    ]
