"""Takes docs/images/view.png: the page of an episode on the bundled corpus, in Debian's chromium.

The model is the script of make_ask_svg.py. Run it again whenever the page changes:
python docs/images/make_view_png.py
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import runpy
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from beliefrag.cli.ask import run_episode
from beliefrag.demo import load_passages
from beliefrag.opening import assemble
from beliefrag.settings import Settings
from beliefrag.types import Question
from beliefrag.web.view import LiveSource, ViewServer

SIZE = {"width": 1000, "height": 860}


def episode(script: list[dict[str, Any]], question: Question) -> LiveSource:
    """An episode that has just ended."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.jsonl"
        file.write_text("\n".join(json.dumps(line) for line in script), encoding="utf-8")
        settings = Settings.model_validate({"model": f"scripted:{file}", "borrow": "published", "cache": False})
        assembly = assemble(settings, passages=load_passages())
        source = LiveSource()
        asyncio.run(run_episode(question, assembly, display=None, observers=[source.add]))
    return source


def take(target: Path) -> None:
    """Takes the picture."""
    ask = runpy.run_path(str(Path(__file__).with_name("make_ask_svg.py")))
    with ThreadPoolExecutor(1) as thread:
        source = thread.submit(episode, ask["SCRIPT"], ask["QUESTION"]).result()
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with ViewServer(source) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=root)
        page = browser.new_page(viewport=SIZE, device_scale_factor=1)  # type: ignore[arg-type]
        page.goto(server.address)
        page.get_by_text("ended", exact=True).wait_for(timeout=60_000)
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    # A page has few colours: a palette makes the file a third as large.
    picture.convert("RGB").quantize(128).save(target, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("view.png"))
