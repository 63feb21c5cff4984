"""Nothing is written outside the cache folder and what somebody named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, write_docs, write_script


def test_nothing_is_written_but_the_cache_and_what_was_named(beliefrag: Callable[..., Ran], home: Path) -> None:
    root = home.parent
    docs, model = write_docs(home), write_script(home, SURE, ANSWER)

    def outside() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in root.rglob("*") if not path.is_relative_to(root / "cache")}

    before = outside()
    given = ("ask", QUESTION, "--docs", docs, "--model", model, *BORROWED)
    for arguments in (
        ("--help",),
        given,
        (*given, "--json"),
        ("demo", "--list"),
        ("demo", "--model", model, *BORROWED),
        ("doctor", "--docs", docs, "--model", model, *BORROWED),
        ("config", "show"),
        ("prompt",),
        ("model", "pull"),
    ):
        assert beliefrag(*arguments).code in (0, 1), arguments
    assert outside() == before
    assert beliefrag(*given, "--trace", "named.jsonl").code == 0
    assert beliefrag("index", docs, "--out", "named.index").code == 0
    new = {path.relative_to(home).parts[0] for path in outside().keys() - before.keys()}
    assert new == {"named.jsonl", "named.index"}
