"""The site of the documents: it builds, its links lead somewhere, and its pages ask nobody else for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.scripts import load_script

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*?\ssrc=["']?(?:https?:)?//|<link[^>]*?href=["']?(?:https?:)?//"""
)
"""What a browser fetches by itself, as opposed to a link that a person follows."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    # It is strict: a link or an anchor that leads nowhere, or a page that no menu names, ends the build.
    assert done.returncode == 0, done.stderr
    return folder


def test_no_page_asks_another_server_for_anything(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        found = [line for line in LOADED.findall(page.read_text(encoding="utf-8")) if 'rel="canonical"' not in line]
        assert not found, f"{page.relative_to(site)}: {found[0]}"
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\((?:https?:)?//", style.read_text(encoding="utf-8")), style.name


def test_the_reference_pages_are_what_the_code_says() -> None:
    for name, text in load_script(DOCS / "make_reference.py").pages().items():
        page = (DOCS / "reference" / name).read_text(encoding="utf-8")
        assert page == text, f"docs/reference/{name} is stale: run python docs/make_reference.py"


def test_the_pictures_name_files_that_exist_and_are_drawn_from_their_script() -> None:
    script = load_script(DOCS / "images" / "make_ways_svg.py")
    for name in (name for box in (*script.LOOP, *script.ROOMS) for name in box.files):
        assert (ROOT / "src" / "beliefrag" / name).exists(), name
    for name, text in script.PICTURES.items():
        assert (DOCS / "images" / name).read_text(encoding="utf-8") == text, f"run make_ways_svg.py: {name}"
