"""The settings: which files they come from, and whether they can be used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beliefrag.cli.checkup.finding import Finding, fine, problem
from beliefrag.errors import SettingsError
from beliefrag.settings import Settings, load_settings

__all__ = ["check_settings"]


def check_settings(typed: Mapping[str, Any], config: Path | None) -> tuple[Settings, Finding]:
    """The settings in force, or the defaults where they cannot be used, and which of it is the case."""
    try:
        loaded = load_settings(typed, config=config)
    except SettingsError as error:
        return Settings.model_validate({}), problem("settings", error)
    sources = sorted(set(loaded.sources.values()))
    return loaded.settings, fine("settings", f"from {', '.join(sources)}" if sources else "the defaults")
