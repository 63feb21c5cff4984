"""What the controller costs before and after is counted by purpose, on the questions that both sides have."""

from __future__ import annotations

from pathlib import Path

from benchmarks.controller_cost import collect_costs, format_costs
from benchmarks.decide.episodes import EpisodeRow, read_rows
from benchmarks.find.mixed_corpus import MULTI_HOP

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def make_row(run: str, method: str, dataset: str, number: int, *, verifier: int, answer: int) -> EpisodeRow:
    return EpisodeRow(
        run=run,
        method=method,
        dataset=dataset,
        question=f"q{number}",
        outcome="answered",
        actions="RETRIEVE ANSWER",
        answerability=None,
        exact_match=0.0,
        f1=number % 2,
        cover=0.0,
        evidence_recall=1.0,
        tokens=verifier + answer,
        tokens_in=verifier + answer,
        tokens_out=0,
        tokens_by_purpose=f"answer={answer} verifier={verifier}",
        calls=2,
        rounds=1.0,
    )


def make_side(run: str, method: str, n: int, *, verifier: int, answer: int = 100) -> list[EpisodeRow]:
    return [
        make_row(run, method, dataset, number, verifier=verifier, answer=answer)
        for dataset in MULTI_HOP
        for number in range(n)
    ]


def test_tokens_are_counted_by_purpose_on_the_questions_that_all_have() -> None:
    before = make_side("paper", "beliefrag", 4, verifier=12_000)
    after = make_side("paper", "beliefrag", 6, verifier=1_000) + make_side("bm25", "iterative", 9, verifier=0)
    costs = collect_costs(before, after)
    assert costs["n"] == dict.fromkeys(MULTI_HOP, 4)
    assert costs["sides"]["before"]["tokens_by_purpose"] == {"answer": 100, "verifier": 12_000}
    assert [costs["sides"][name]["above_cap"] for name in ("before", "after", "iterative")] == [12, 0, 0]
    assert costs["differences"]["after minus before"]["tokens"]["value"] == -11_000
    assert costs["differences"]["after minus iterative"]["f1"]["value"] == 0
    assert "| verifier | 12,000 | 1,000 | 0 |" in format_costs(costs)


def test_the_page_has_the_table_of_the_committed_episodes() -> None:
    costs = collect_costs(read_rows(RESULTS / "controller_before.csv"), read_rows(RESULTS / "decide_episodes.csv"))
    assert costs["n"] == dict.fromkeys(MULTI_HOP, 30)
    page = (RESULTS / "controller.md").read_text(encoding="utf-8")
    for line in format_costs(costs).splitlines():
        assert line in page
