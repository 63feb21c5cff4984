"""Loads a script that lies outside of any package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def load_script(path: Path) -> Any:
    """Return the module of a file, executed."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for the module that it stands in.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
