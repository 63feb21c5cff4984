"""The built pages: what ships is what the source gives, and no source turns text into markup."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VIEWER = ROOT / "viewer"
ASSETS = ROOT / "src" / "beliefrag" / "web" / "view" / "assets"
SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\b|"
    r"new Function|setHTMLUnsafe|parseHTMLUnsafe"
)

needs_node = pytest.mark.skipif(
    shutil.which("node") is None or not (VIEWER / "node_modules").is_dir(),
    reason="the viewer's build needs node and its packages; 'make viewer' gets them",
)


def sources() -> list[Path]:
    return sorted((VIEWER / "src").glob("*.ts"))


def test_no_source_turns_text_into_markup_or_code() -> None:
    assert len(sources()) > 10
    for path in [*sources(), ASSETS / "app.js"]:
        assert not SINKS.search(path.read_text(encoding="utf-8")), path.name


def test_no_asset_names_another_machine() -> None:
    for path in ASSETS.iterdir():
        addresses = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org/2000/svg"}, path.name


def test_the_lockfile_names_no_registry_and_pins_every_package_by_its_hash() -> None:
    lock = json.loads((VIEWER / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert packages
    assert all(
        "resolved" not in package and package["integrity"].startswith("sha512-") for package in packages.values()
    )
    wanted = json.loads((VIEWER / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())


@needs_node
def test_the_assets_are_what_the_source_gives(tmp_path: Path) -> None:
    checked = subprocess.run(
        ["npx", "--no-install", "tsc", "--noEmit"], cwd=VIEWER, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    subprocess.run(["node", "build.mjs", "--out", str(tmp_path)], cwd=VIEWER, check=True, capture_output=True)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_bytes() for path in ASSETS.iterdir()}


@needs_node
def test_the_parts_of_the_pages_pass_their_own_tests() -> None:
    done = subprocess.run(["npm", "test", "--silent"], cwd=VIEWER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "# fail 0" in done.stdout
