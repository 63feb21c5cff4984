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
    """Runs a copy of a script in a folder that has nothing else of the project but its pins."""
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


def test_a_known_vulnerability_fails_with_its_package_and_remedy(tmp_path: Path) -> None:
    known = {"id": "PYSEC-2026-1", "fix_versions": ["2.0"]}
    write_audit(tmp_path, {"dependencies": [{"name": "left-pad", "version": "1.0", "vulns": [known]}]})
    done = run_script("check-vulnerabilities", tmp_path)
    assert done.returncode == 1
    assert mentions(done.stdout, "left-pad 1.0", "PYSEC-2026-1", "2.0")


def test_packages_without_one_pass(tmp_path: Path) -> None:
    packages = [
        {"name": "left-pad", "version": "1.0", "vulns": []},
        {"name": "own", "version": "1", "skip_reason": "?"},
    ]
    write_audit(tmp_path, {"dependencies": packages})
    done = run_script("check-vulnerabilities", tmp_path)
    assert done.returncode == 0
    assert mentions(done.stdout, "0 in 1 packages", "1 were NOT CHECKED")


def test_a_database_that_cannot_be_reached_is_told_and_is_no_failure(tmp_path: Path) -> None:
    write_audit(tmp_path, None)
    done = run_script("check-vulnerabilities", tmp_path)
    assert done.returncode == 0
    assert mentions(done.stdout, "NOT CHECKED", "advisory database")


def test_an_auditor_that_cannot_be_installed_is_told_and_is_no_failure(tmp_path: Path) -> None:
    write_program(tmp_path / "python", "echo there is no venv here; exit 1")
    done = run_script("check-vulnerabilities", tmp_path, PYTHON=str(tmp_path / "python"))
    assert done.returncode == 0
    assert mentions(done.stdout, "NOT CHECKED", "pip-audit", "there is no venv here")


def test_a_python_that_is_not_installed_is_told_and_is_no_failure(tmp_path: Path) -> None:
    done = run_script("try-other-pythons", tmp_path, PYTHONS="3.99", PYENV_ROOT=str(tmp_path))
    assert done.returncode == 0
    assert mentions(done.stdout, "Python 3.99: NOT TRIED", "not installed")


def test_python_3_12_and_3_13_are_those_that_are_tried(tmp_path: Path) -> None:
    for version in ("3.12", "3.13"):
        write_program(tmp_path / f"bin/python{version}", "exit 1")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONS"}
    done = run_script("try-other-pythons", tmp_path, **(environment | {"PATH": path, "PYENV_ROOT": str(tmp_path)}))
    told = [line.partition(",")[0] for line in done.stdout.splitlines()]
    assert told == ["Python 3.12: NOT TRIED", "Python 3.13: NOT TRIED"]


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


def test_both_are_part_of_what_ci_runs() -> None:
    commands = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    assert {".ci/check-vulnerabilities", ".ci/try-other-pythons"} <= set(commands)
