"""Studies from Python: `studies.run` makes runs and gives the result; nothing is printed and nobody is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beliefrag import studies
from beliefrag.bench import RunProgress
from beliefrag.settings import Settings
from tests.support.bench_runs import write_dataset, write_script

NAME = "frontier:of=static,methods=static+no_rag"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    return Settings(model=write_script(tmp_path), verifier="structured", borrow="published")


def test_a_study_is_made_with_progress_and_shows_itself(
    tmp_path: Path, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [write_dataset(tmp_path, name, 3) for name in ("north", "south")]
    seen: list[tuple[str, RunProgress]] = []
    out = tmp_path / "studies"
    found = studies.run(NAME, data=data, out=out, settings=settings, progress=lambda *each: seen.append(each))
    assert {name for name, _ in seen} == {"comparison"}
    assert (seen[0][1].done, seen[-1][1].done) == (0, 12)
    assert found.numbers["of"] == "static"
    assert json.loads((out / "frontier" / "numbers.json").read_text())["findings"] == list(found.findings)
    page = found._repr_html_()
    assert "<svg" in page and "<table>" in page and found.tables[0].title in page
    again = studies.run(NAME, existing_run=out / "runs" / "comparison", out=tmp_path / "again")
    assert again.numbers == found.numbers
    assert capsys.readouterr() == ("", "")
