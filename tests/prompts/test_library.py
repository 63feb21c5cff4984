import re
from pathlib import Path

import pytest

from beliefrag.errors import SettingsError
from beliefrag.prompts import NAMES, Prompts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "prompts.md").read_text(encoding="utf-8")


def test_every_prompt_ships_and_has_a_hash() -> None:
    prompts = Prompts.load()
    assert set(prompts.hashes()) == set(NAMES)
    assert all(prompts.templates.values())


def test_fields_are_filled_in_one_pass() -> None:
    prompts = Prompts({"rewriter": "{question} / {query} / {reason}"})
    filled = prompts.fill("rewriter", question="{query}", query="q", reason="{reason} {question}")
    assert filled == "{query} / q / {reason} {question}"


def test_braces_that_are_no_field_stay() -> None:
    prompts = Prompts({"verifier": 'Return {"support": <float>} for {question} {evidence} {draft}'})
    filled = prompts.fill("verifier", question="q", evidence="e", draft="none")
    assert filled == 'Return {"support": <float>} for q e none'


def test_a_folder_replaces_some_prompts_and_changes_only_their_hashes(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_text("Say {question} from {evidence}", encoding="utf-8")
    ours, theirs = Prompts.load().hashes(), Prompts.load(tmp_path).hashes()
    assert {name for name in NAMES if ours[name] != theirs[name]} == {"answer"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("answers.txt", "{question}", "not a prompt"),
        ("answer.txt", "{question} {draft}", "{draft}"),
        ("answer.txt", "only {evidence}", "never mentions"),
    ],
)
def test_a_folder_that_cannot_work_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=words):
        Prompts.load(tmp_path)


def test_a_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No prompt files"):
        Prompts.load(tmp_path / "nowhere")


def test_every_prompt_has_a_place_in_the_table_of_prompts() -> None:
    files = {file.stem for file in (ROOT / "src" / "beliefrag" / "prompts").glob("*.txt")}
    assert files == set(NAMES)
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall("`([a-z_]+)`", row.split("|")[1])}
    assert files <= named, f"docs/prompts.md does not name {sorted(files - named)}"
