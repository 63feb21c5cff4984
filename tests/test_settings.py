from pathlib import Path

import pytest

from beliefrag.errors import SettingsError
from beliefrag.settings import DEFAULT_MODEL, Settings, load_settings
from beliefrag.types import Budget


@pytest.fixture(autouse=True)
def clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BELIEFRAG_ANSWER_STYLE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))


def write_user_file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "home" / "beliefrag" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    return file


def test_without_any_source_the_defaults_hold() -> None:
    loaded = load_settings()
    assert loaded.settings == Settings()
    assert loaded.settings.model == DEFAULT_MODEL
    assert loaded.settings.budget == Budget(rounds=3, top_k=5, actions=6, tokens=12_000)
    assert {source for _, _, source in loaded.rows()} == {"default"}


def test_each_source_overrides_the_one_before_and_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = write_user_file(tmp_path, 'model = "a"\ntimeout = 1.0\n[budget]\ntokens = 100\nrounds = 1\nactions = 4\n')
    Path("beliefrag.toml").write_text('model = "b"\n[budget]\nrounds = 2\nactions = 5\n', encoding="utf-8")
    monkeypatch.setenv("BELIEFRAG_MODEL", "c")
    monkeypatch.setenv("BELIEFRAG_BUDGET__ACTIONS", "8")
    loaded = load_settings({"model": "d", "verifier": None})
    assert loaded.settings.model == "d"
    assert loaded.settings.timeout == 1.0
    assert loaded.settings.budget == Budget(rounds=2, actions=8, tokens=100)
    sources = {name: source for name, _, source in loaded.rows()}
    assert sources["model"] == "an option"
    assert sources["timeout"] == str(user)
    assert sources["budget.rounds"] == "beliefrag.toml"
    assert sources["budget.actions"] == "BELIEFRAG_BUDGET__ACTIONS"
    assert sources["verifier"] == "default"


def test_a_switch_can_be_set_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_THRESHOLDS__ABSTAIN", "false")
    monkeypatch.setenv("BELIEFRAG_CACHE", "0")
    settings = load_settings().settings
    assert settings.thresholds.abstain is False
    assert settings.cache is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modle = 'x'", "Unknown setting 'modle'"),
        ("[budget]\nround = 2", "Unknown setting 'budget.round'"),
        ("timeout = 'soon'", "timeout"),
        ("[budget]\nactions = 0", "actions .*1, not 0"),
        ("[thresholds]\nanswer = nan", "answer .*0 and 1"),
        ("[thresholds]\nnovelty = 7.0", "novelty .*0 and 1"),
        ("not toml", "Cannot read"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_with_its_file(text: str, words: str) -> None:
    Path("beliefrag.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=words) as caught:
        load_settings()
    assert "beliefrag.toml" in str(caught.value)


def test_a_misspelt_variable_is_told_and_passed_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("BELIEFRAG_BUDGET_TOKENS", "100")
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", "elsewhere")
    assert load_settings().settings == Settings()
    assert [record.getMessage().split()[0] for record in caplog.records] == ["BELIEFRAG_BUDGET_TOKENS"]


def test_a_file_that_was_named_must_exist() -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        load_settings(config=Path("nowhere.toml"))


def test_a_named_file_stands_in_for_the_project_file() -> None:
    Path("beliefrag.toml").write_text("timeout = 5", encoding="utf-8")
    Path("other.toml").write_text("concurrency = 2", encoding="utf-8")
    settings = load_settings(config=Path("other.toml")).settings
    assert (settings.timeout, settings.concurrency) == (120.0, 2)
