"""The cache folder: for what can be made or fetched again, such as model weights and recorded replies."""

from __future__ import annotations

import os
from pathlib import Path

from beliefrag.errors import SettingsError


def cache_dir() -> Path:
    """Return the folder for everything that may be deleted without loss; it is not created here.

    `BELIEFRAG_CACHE_DIR` if set, otherwise `beliefrag` in `XDG_CACHE_HOME` or in `~/.cache`.
    """
    try:
        if own := os.environ.get("BELIEFRAG_CACHE_DIR"):
            return Path(own).expanduser().absolute()
        shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # The XDG specification says that a relative value is to be ignored.
        return (shared if shared.is_absolute() else Path.home() / ".cache") / "beliefrag"
    except RuntimeError:
        raise SettingsError("This user has no home folder.", remedy="Set BELIEFRAG_CACHE_DIR to a folder.") from None
