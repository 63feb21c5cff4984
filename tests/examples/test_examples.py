"""Every example is run as it stands, over a handbook of one page and with a scripted model."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from tests.support.episodes import verdict

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_every_example_is_listed() -> None:
    page = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert EXAMPLES
    assert [file.name for file in EXAMPLES if f"`{file.name}`" not in page] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_answers(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "travel.md").write_text(
        "# Travel\n\nTravel above the limit is approved by the head of finance.\n", encoding="utf-8"
    )
    lines = [
        verdict(0.95, 0.0, 0.0) | {"repeat": True},
        {"purpose": "answer", "reply": "the head of finance", "repeat": True},
    ]
    (tmp_path / "script.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    settings = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "BELIEFRAG_CACHE_DIR": str(tmp_path / "cache"),
        "BELIEFRAG_MODEL": f"scripted:{tmp_path / 'script.jsonl'}",
        "BELIEFRAG_BORROW": "published",
        "BELIEFRAG_VERIFIER": "structured",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    # As a script, but in this process: to load the libraries of others again takes longest of all.
    runpy.run_path(str(example), run_name="__main__")
    said = capfd.readouterr().out
    assert "the head of finance" in said
    assert "travel.md" in said or "answered" in said
