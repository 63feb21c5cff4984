"""The scripts of CI that need a network or other Pythons: they fail on what they find, and tell what was not done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.messages import mentions

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def run_script(name: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of a script in a folder that has nothing else of the project but its pins."""
    (folder / ".ci").mkdir()
    for each in (f".ci/{name}", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / each, folder / each)
    return subprocess.run(
        ["bash", f".ci/{name}"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def write_audit(folder: Path, report: dict[str, Any] | None) -> None:
    """An auditor that reports this, or cannot reach a database."""
    body = "echo no network >&2; exit 1"
    if report is not None:
        (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
        body = 'while [ "$1" != --output ]; do shift; done; cp report.json "$2"'
    write_program(folder / ".venv-audit/bin/pip-audit", body)
    (folder / ".venv-audit/bin/python").symlink_to(shutil.which("python3") or "/usr/bin/python3")


KNOWN = {"id": "PYSEC-2026-1", "fix_versions": ["2.0"]}
CLEAN = [{"name": "left-pad", "version": "1.0", "vulns": []}, {"name": "own", "version": "1", "skip_reason": "?"}]


@pytest.mark.parametrize(
    ("report", "code", "said"),
    [
        (
            {"dependencies": [{"name": "left-pad", "version": "1.0", "vulns": [KNOWN]}]},
            1,
            ("left-pad 1.0", "PYSEC-2026-1", "2.0"),
        ),
        ({"dependencies": CLEAN}, 0, ("0 in 1 packages", "1 were NOT CHECKED")),
        (None, 0, ("NOT CHECKED", "advisory database")),
    ],
)
def test_a_known_vulnerability_fails_and_what_was_not_checked_is_reported(
    tmp_path: Path, report: dict[str, Any] | None, code: int, said: tuple[str, ...]
) -> None:
    write_audit(tmp_path, report)
    done = run_script("check-vulnerabilities", tmp_path)
    assert done.returncode == code
    assert mentions(done.stdout, *said)


@pytest.mark.parametrize(("code", "said"), [(0, "works"), (1, "FAILED")])
def test_a_python_that_is_installed_is_tried_and_its_failure_is_one_of_ci(tmp_path: Path, code: int, said: str) -> None:
    # Its venv has a Python that installs everything, and passes or fails the tests.
    inner = f'case "$*" in *"-m pytest"*) echo ran "$@" >&2; exit {code};; esac'
    write_program(tmp_path / "inner", inner)
    outer = 'case "$*" in *"-m venv"*) mkdir -p "${@: -1}/bin" && cp inner "${@: -1}/bin/python";; esac'
    write_program(tmp_path / "versions/3.99.1/bin/python", outer)
    done = run_script("try-other-pythons", tmp_path, PYTHONS="3.99", PYENV_ROOT=str(tmp_path))
    assert (done.returncode, done.stdout) == (code, f"Python 3.99: {said}\n")
    assert "tests/test_weight.py" in done.stderr, "asking and serving without an extra are among what is tried"
