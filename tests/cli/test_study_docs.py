"""Every command of docs/studies.md works, in the order of the page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.shell import Ran
from tests.support.bench_runs import write_dataset, write_script
from tests.support.study_data import write_rows, write_snippets

PAGE = Path(__file__).parents[2] / "docs" / "studies.md"


@pytest.mark.usefixtures("without_pictures")
def test_the_commands_of_the_page_work(
    beliefrag: Callable[..., Ran], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("hotpotqa", "musique"):
        write_dataset(home / "data", name, 5)
    write_snippets(home / "data", questions=2)
    write_rows(home / "data", questions=2)
    monkeypatch.setenv("BELIEFRAG_MODEL", write_script(home))
    monkeypatch.setenv("BELIEFRAG_BORROW", "published")
    monkeypatch.setenv("BELIEFRAG_VERIFIER", "structured")
    commands = re.findall(r"^beliefrag (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) >= 5
    for line in commands:
        ran = beliefrag(*shlex.split(line))
        assert ran.code == 0, f"{line}: {ran.err}"
