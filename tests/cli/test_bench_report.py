"""`beliefrag bench run --dry-run`, `report` and `compare`: costs, numbers, intervals, and what is missing."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Ran
from tests.support.bench_runs import BORROWED, records, write_dataset, write_script
from tests.support.http_server import ChatServer, completion
from tests.support.messages import mentions

Command = Callable[..., Ran]


def played(beliefrag: Command, home: Path, *more: str, methods: str = "no_rag,static,beliefrag") -> Path:
    for name in ("north", "south"):
        if not (home / name).exists():
            write_dataset(home, name, 6)
    line = ("bench", "run", "--data", "north", "south", "--methods", methods, "--model", write_script(home), *BORROWED)
    beliefrag(*line, "--out", "run", *more)
    return home / "run"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()[1:], delimiter="\t"))


def tidy(run: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    lines = (run / "report" / "results.csv").read_text().splitlines()
    return {(row["dataset"], row["method"], row["measure"]): row for row in csv.DictReader(lines[1:])}


def test_a_report_has_the_numbers_of_the_episodes(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    ran = beliefrag("bench", "report", run)
    assert ran.code == 0
    assert mentions(ran.out.splitlines()[0], "Complete", 36)
    row = next(row for row in table(ran.out) if (row["dataset"], row["method"]) == ("north", "Static"))
    # One question of six is right, one is right by two words of three.
    assert (row["n"], row["EM"], row["F1"]) == ("6", "0.167", f"{(1 + 2 / 3) / 6:.3f}")
    assert row["F1 95 %"].endswith(" ?"), "six questions are too few, and that is said"
    assert row["answered/stopped/abstained/failed"] == "6/0/0/0"
    static = [r for r in records(run) if (r.dataset, r.method) == ("north", "static")]
    numbers = tidy(run)
    for measure in ("tokens", "tokens_in", "tokens_out", "calls"):
        mean = sum(getattr(r.usage, measure) for r in static) / 6
        assert float(numbers["north", "static", measure]["value"]) == pytest.approx(mean)
    assert float(numbers["north", "static", "judge"]["value"]) == pytest.approx(1 / 6)
    assert float(numbers["north", "static", "calls_answer"]["value"]) == 1.0
    assert float(numbers["north", "static", "above_cap"]["value"]) == 0
    spent = sum(r.verdict.usage.tokens for r in static if r.verdict)
    assert int(numbers["north", "static", "judge_tokens"]["value"]) == spent > 0


def test_a_report_with_missing_and_failed_episodes_says_so_first(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, "--no-judge")
    (home / "bench.jsonl").unlink()
    line = ("bench", "run", "--data", "north", "south", "--methods", "no_rag,static,rl_search", *BORROWED)
    ran = beliefrag(*line, "--out", "run", "--replay", "--no-judge", "--n", "6")
    assert ran.code == 1
    whole = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes.jsonl").write_bytes(b"".join(whole[3:]))
    said = beliefrag("bench", "report", run).out.splitlines()[0]
    assert mentions(said, "INCOMPLETE", "3 of 48", "missing", "12 failed", "ReplayMiss 12", "No mean", "RL-Search")
    for name in ("report.md", "results.csv"):
        assert said in (run / "report" / name).read_text().splitlines()[0]
    assert said in (run / "report" / "report.html").read_text()
    assert ("north", "rl_search", "f1") not in tidy(run)


def test_a_hostile_dataset_name_stays_text(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "a|b <script>x_$", 2)
    model = write_script(home)
    line = ("bench", "run", "--data", "a|b <script>x_$", "--methods", "static", "--model", model, "--out", "run")
    assert beliefrag(*line).code == 0
    assert beliefrag("bench", "report", "run").code == 0
    report = home / "run" / "report"
    assert "<script>" not in (report / "report.html").read_text()
    assert "<script>" not in (report / "report.md").read_text()
    assert "a\\|b" in (report / "report.md").read_text()


def test_the_comparison_is_paired_and_signed_and_needs_equal_questions(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home)
    ran = beliefrag("bench", "compare", run, "static", "no_rag")
    assert ran.code == 0
    rows = list(csv.DictReader(ran.out.splitlines(), delimiter="\t"))
    tokens = next(r for r in rows if (r["dataset"], r["measure"]) == ("north", "tokens"))
    assert tokens["difference"].startswith("+"), "passages cost tokens"
    assert "too few questions" in tokens["reading"]
    spent = {
        m: sum(r.usage.tokens for r in records(run) if (r.dataset, r.method) == ("north", m)) / 6
        for m in ("static", "no_rag")
    }
    assert tokens["difference"] == f"{spent['static'] - spent['no_rag']:+,.0f}"
    assert {row["measure"] for row in rows} == {"F1", "tokens", "better and cheaper"}
    file = run / "episodes.jsonl"
    lost = [line for line in file.read_text().splitlines() if '"method":"static"' in line and '"north"' in line]
    kept = [line for line in file.read_text().splitlines() if line not in lost]
    file.write_text("\n".join([*kept, *lost[:4]]) + "\n")
    ran = beliefrag("bench", "compare", run, "static", "no_rag")
    assert (ran.code, ran.out) == (1, "")
    assert "2 of 6 questions" in ran.err
    ran = beliefrag("bench", "compare", run, "static", "no_rag", "--allow-unequal")
    assert ran.code == 0
    missing = sorted(json.loads(line)["question"]["id"] for line in lost[4:])
    assert mentions(ran.err, "north: 2 questions", "left out", ", ".join(missing))
    assert "\n".join(ran.out.splitlines()[1:]).startswith("north\t4\tF1")


def test_what_a_failure_says_is_cut_and_stays_text(beliefrag: Command, home: Path) -> None:
    run = played(beliefrag, home, methods="static,no_rag")
    file = run / "episodes.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    said = "The server said: <b>|\x1b[2J\n" + "x" * 5000
    for line in lines:
        del line["seal"]
    for line in lines[:2]:
        line |= {"outcome": "failed", "metrics": {}, "error": {"cause": "ServerError", "message": said, "remedy": ""}}
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert beliefrag("bench", "report", run).code == 0
    for name in ("report.md", "report.html"):
        text = (run / "report" / name).read_text()
        assert "The server said:" in text and "x" * 100 in text, name
        assert "x" * 250 not in text and "\x1b" not in text, name
    assert "said: &lt;b>\\| \\[2J xxx" in (run / "report" / "report.md").read_text()
    assert "<b>|" not in (run / "report" / "report.html").read_text()


RUN = ("bench", "run", "--data", "north", "--out", "run")


@pytest.fixture
def north(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    write_dataset(home, "north", 4)
    return home


def ahead(ran: Ran) -> dict[str, str]:
    """Return what is said, by the word that it begins with."""
    assert ran.code == 0, ran.err
    return {line.split(":")[0].split(",")[0]: line for line in ran.err.splitlines()}


def test_the_report_says_what_a_run_cost(beliefrag: Command, north: Path, chat_server: ChatServer) -> None:
    (north / "beliefrag.toml").write_text("[prices]\ntokens_in = 1000000\ntokens_out = 3000000\n")
    chat_server.play(lambda _: completion("yes"))
    line = (*RUN, "--methods", "static", "--model", "m", "--base-url", chat_server.url)
    assert beliefrag(*line).code == 0
    found = records(north / "run")
    own, judge = (
        sum(usage.tokens_in + 3 * usage.tokens_out for usage in usages)
        for usages in ([r.usage for r in found], [r.verdict.usage for r in found if r.verdict])
    )
    ran = beliefrag("bench", "report", "run")
    assert mentions(ahead(ran)["cost"], f"${own:,.2f}", "$1000000.00 in", "$3000000.00 out")
    assert mentions(ahead(ran)["cost of the judge"], "no method's", f"${judge:,.2f}")
    page = (north / "run" / "report" / "report.md").read_text(encoding="utf-8")
    assert f"| cost | 4 calls, {sum(r.usage.tokens_in for r in found):,} tokens in" in page
    # The next command takes a changed price; the run still knows a price that was removed.
    (north / "beliefrag.toml").write_text("[prices]\ntokens_in = 2000000\ntokens_out = 6000000\n")
    beliefrag(*line)
    (north / "beliefrag.toml").unlink()
    beliefrag(*line)
    assert f"; ${2 * own:,.2f} (" in ahead(beliefrag("bench", "report", "run"))["cost"]
    assert json.loads((north / "run" / "run.json").read_text())["price"]["source"] == "the settings"
