"""`beliefrag config show`: every setting, its value, and where it came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.settings import load_settings
from tests.cli.shell import Ran

Command = Callable[..., Ran]


def rows(ran: Ran) -> dict[str, tuple[str, str]]:
    return {name: (value, source) for name, value, source in (line.split("\t") for line in ran.out.splitlines()[1:])}


def test_each_source_is_named(beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "beliefrag.toml").write_text('model = "mine"\n[budget]\nrounds = 2\n')
    monkeypatch.setenv("BELIEFRAG_BUDGET__TOP_K", "4")
    ran = beliefrag("config", "show")
    assert ran.code == 0
    found = rows(ran)
    assert list(found) == [name for name, _, _ in load_settings().rows()]
    assert found["model"] == ("mine", "beliefrag.toml")
    assert found["budget.rounds"] == ("2", "beliefrag.toml")
    assert found["budget.top_k"] == ("4", "BELIEFRAG_BUDGET__TOP_K")
    assert found["budget.tokens"] == ("12000", "default")
    assert found["cache"] == ("true", "default")
    assert found["threads"] == ("-", "default")


def test_json_is_one_object_by_name(beliefrag: Command, home: Path) -> None:
    (home / "other.toml").write_text('prompts = "words"\n')
    record = beliefrag("config", "show", "--json", "--config", home / "other.toml").record
    assert record["budget.rounds"] == {"value": 3, "source": "default"}
    assert record["prompts"] == {"value": "words", "source": str(home / "other.toml")}
    assert record["base_url"] == {"value": None, "source": "default"}


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_a_key_in_an_address_is_not_shown(
    beliefrag: Command, monkeypatch: pytest.MonkeyPatch, flag: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BELIEFRAG_BASE_URL", "https://me:hunter2@host.example:8443/v1?key=abcdef123456#frag")
    ran = beliefrag("config", "show", *flag)
    assert "host.example:8443/v1" in ran.out
    for secret in ("hunter2", "abcdef123456", "me:"):
        assert secret not in ran.out
