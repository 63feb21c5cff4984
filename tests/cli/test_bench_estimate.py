"""What `beliefrag bench run` says is ahead: calls, tokens, time and money, the judge's apart."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Ran
from tests.support.bench_runs import records, write_dataset
from tests.support.http_server import ChatServer, completion
from tests.support.messages import mentions

Command = Callable[..., Ran]
RUN = ("bench", "run", "--data", "north", "--out", "run")


@pytest.fixture
def north(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    write_dataset(home, "north", 4)
    return home


def ahead(ran: Ran) -> dict[str, str]:
    """What is said, by the word that it begins with."""
    assert ran.code == 0, ran.err
    return {line.split(":")[0].split(",")[0]: line for line in ran.err.splitlines()}


def amounts(line: str) -> tuple[int, int, int]:
    found = re.search(r"([\d,]+) calls, ([\d,]+) tokens in, ([\d,]+) out", line)
    assert found
    calls, tokens_in, tokens_out = (int(number.replace(",", "")) for number in found.groups())
    return calls, tokens_in, tokens_out


def test_the_settings_have_the_last_word_on_prices(beliefrag: Command, north: Path) -> None:
    (north / "beliefrag.toml").write_text("[prices]\ntokens_in = 1000\ntokens_out = 0\n")
    line = (*RUN, "--methods", "static", "--model", "gpt-4o", "--dry-run")
    said = ahead(beliefrag(*line))
    dollars = f"${amounts(said['ahead'])[1] / 1000:.2f}"
    assert mentions(said["money"], "money:", dollars, "$1000.00 in", "$0.00 out")
    assert "$1000.00 in" in said["judge"], "the judge is the same model"
    assert "$0.50 in" in ahead(beliefrag(*line, "--set", "run.judge_model=gpt-3.5-turbo-0125"))["judge"]
    (north / "beliefrag.toml").write_text("[prices]\njudge_tokens_in = 7\njudge_tokens_out = 8\n")
    said = ahead(beliefrag(*line))
    assert "$2.50 in" in said["money"]
    assert mentions(said["judge"], "$7.00 in", "$8.00 out")


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
    # A price that was mended is taken by the next command; one that was taken away is still known to the run.
    (north / "beliefrag.toml").write_text("[prices]\ntokens_in = 2000000\ntokens_out = 6000000\n")
    beliefrag(*line)
    (north / "beliefrag.toml").unlink()
    beliefrag(*line)
    assert f"; ${2 * own:,.2f} (" in ahead(beliefrag("bench", "report", "run"))["cost"]
    assert json.loads((north / "run" / "run.json").read_text())["price"]["source"] == "the settings"
