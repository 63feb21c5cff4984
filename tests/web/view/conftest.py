from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from beliefrag.cli import main
from beliefrag.web.view import RunSource, ViewServer
from tests.support.bench_runs import BORROWED, write_dataset, write_script
from tests.support.browsing import Visit, launch_options, visit
from tests.support.viewing import HOSTILE, hostile_dataset

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FLAGGING = {"unhelpful_doc_ids": [2], "support": 0.3, "conflict": 0.0, "gap": 1.0, "uncertainty": 1.0}
"""What a verifier says that wants one passage gone."""


@dataclass(frozen=True)
class Played:
    """A run that was played with a script, and where its datasets lie."""

    run: Path
    data: Path


@contextmanager
def own_settings(cache: Path) -> Iterator[None]:
    """Set a cache folder of our own, and no setting from outside."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("BELIEFRAG_", "XDG_"))]:
            patch.delenv(name)
        patch.setenv("BELIEFRAG_CACHE_DIR", str(cache))
        yield


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder of all tests of the viewer."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def _settings(cache: Path) -> Iterator[None]:
    with own_settings(cache):
        yield


@pytest.fixture(scope="session")
def played(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Three methods on two datasets of four questions; one answer of No-RAG cannot be had, and one is hostile."""
    home = tmp_path_factory.mktemp("played")
    data = home / "data"
    north, south = write_dataset(data, "north"), hostile_dataset(data, "south")
    broken = {"purpose": "answer", "match": "ship north3 born", "error": {"status": 400, "message": "no"}}
    hostile = {"purpose": "answer", "match": "ship south2 born", "reply": HOSTILE, "repeat": True}
    flagged = {"purpose": "verifier", "match": "ship north1 born", "reply": FLAGGING}
    script = write_script(home, broken, hostile, flagged)
    run = home / "run"
    methods = ("--methods", "no_rag,static,beliefrag", "--model", script, *BORROWED, "--no-judge", "--yes")
    # A fixture of the session is made before those of a file.
    with own_settings(cache):
        main(["bench", "run", "--data", str(north), str(south), "--out", str(run), *methods])
    assert (run / "episodes.jsonl").exists()
    return Played(run, data)


@pytest.fixture(scope="session")
def trace(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of one episode on documents, one of which is hostile."""
    home = tmp_path_factory.mktemp("trace")
    (home / "fram.md").write_text("# Fram\n\nThe ship Fram was designed by Colin Archer.\n", encoding="utf-8")
    (home / "odd.md").write_text(f"# Ship\n\nThe ship {HOSTILE}\n", encoding="utf-8")
    lines = [
        {"purpose": "verifier", "reply": f"```json\n{json.dumps(FLAGGING)}\n```"},
        {"purpose": "rewriter", "reply": "Fram designer birthplace"},
        {"purpose": "query_writer", "reply": "Colin Archer born", "repeat": True},
        {
            "purpose": "verifier",
            "reply": {"unhelpful_doc_ids": [], "support": 1, "conflict": 0, "gap": 0, "uncertainty": 0},
        },
        {"purpose": "answer", "reply": "Larvik"},
    ]
    script = home / "script.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    file = home / "trace.jsonl"
    given = ("--docs", home / "fram.md", "--docs", home / "odd.md", "--model", f"scripted:{script}", *BORROWED)
    question = "Where was the designer of the ship Fram born?"
    with own_settings(cache):
        code = main(["ask", question, *map(str, given), "--quiet", "--trace", str(file)])
    assert code in (0, 3)
    return file


@pytest.fixture(scope="module")
def browser(played: Played, trace: Path) -> Iterator[Browser]:
    """A browser for the tests of one file. The runs are played before: Playwright takes this thread's event loop."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(**launch_options())
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def server(browser: Browser, played: Played) -> Iterator[ViewServer]:
    """The viewer of the played run."""
    with ViewServer(RunSource(played.run, [played.data])) as running:
        yield running


@pytest.fixture
def visitor(browser: Browser, server: ViewServer) -> Iterator[Visit]:
    """A visit of the played run. Afterwards the browser must have had nothing to complain of."""
    found = visit(browser, server.key.address)
    yield found
    found.end()
