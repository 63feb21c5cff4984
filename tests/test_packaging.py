"""The package as somebody else gets it: built from the source archive, installed from the wheel, typed."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        # `python -m build` makes the source archive, and the wheel from it; what builds is in this environment already.
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(folder.glob("*.tar.gz"))
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_is_typed_and_holds_the_built_pages_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "beliefrag/py.typed" in names
    pages = {path.name for path in (ROOT / "src" / "beliefrag" / "web" / "view" / "assets").iterdir()}
    assert {name.rpartition("/")[2] for name in names if name.startswith("beliefrag/web/view/assets/")} == pages
    assert not [name for name in names if "tests/" in name or "benchmarks/" in name]


def test_the_command_works_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(target)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    code = "import sys, beliefrag.cli as cli; print(cli.__file__); sys.exit(cli.main(['prompt']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(target))
    assert "query_writer" in done.stdout
