"""What the make targets install: the demo what runs, the tests the rest; and nothing on a person's machine unasked."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = {"pytest", "mypy", "ruff", "mkdocs-material", "scipy", "scikit-learn", "matplotlib", "langchain-core"}


def pins(name: str) -> dict[str, str]:
    """Return the pinned versions of a file, each of which has a hash."""
    blocks = re.split(r"\n(?=\w)", (ROOT / name).read_text(encoding="utf-8"))
    assert all("--hash=sha256:" in block for block in blocks)
    return {package: version for block in blocks for package, version in re.findall(r"^([\w.-]+)==([^ \\]+)", block)}


def test_what_runs_is_pinned_apart_at_the_same_versions() -> None:
    run, everything = pins("requirements-run.txt"), pins("requirements.txt")
    assert run.items() <= everything.items()
    assert not TOOLS & set(run) and len(run) < len(everything) / 2
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[^\w.-]", text)[0].replace("_", "-").lower() for text in project["dependencies"]}
    assert needed <= set(run)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_the_demo_installs_what_runs_and_the_tests_the_rest(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.txt", "requirements-run.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)

    def plan(target: str) -> str:
        return subprocess.run(["make", "-n", target], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "-r requirements-run.txt" in plan("demo") and "-r requirements.txt" not in plan("demo")
    assert plan("test").index("-r requirements-run.txt") < plan("test").index("-r requirements.txt")
    assert "pip --disable-pip-version-check install --quiet --require-hashes" not in plan("demo"), "progress is shown"
