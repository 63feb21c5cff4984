"""Take docs/images/view.png: the page of a traced episode about examples/handbook, in Debian's chromium.

The model is a script. Run it again whenever the page changes: python docs/images/make_view_png.py
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from beliefrag.cli import main
from beliefrag.web.view import TraceSource, ViewServer

HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"
QUESTION = "Who leads the office that approves trips above 800 euros?"
SIZE = {"width": 1000, "height": 860}


def _verdict(support: float, gap: float, uncertainty: float, unhelpful: list[int]) -> dict[str, Any]:
    scores = {"support": support, "conflict": 0.0, "gap": gap, "uncertainty": uncertainty}
    return {"purpose": "verifier", "reply": {"unhelpful_doc_ids": unhelpful, **scores}}


SCRIPT = [
    _verdict(0.3, 0.8, 0.6, [4, 5]),
    _verdict(0.3, 0.8, 0.6, []),
    {"purpose": "rewriter", "reply": "head of the finance office"},
    {"purpose": "query_writer", "reply": "finance office led by"},
    _verdict(0.95, 0.05, 0.05, []),
    {"purpose": "answer", "reply": "Mirjam Dahl"},
]


def take(target: Path) -> None:
    """Take the picture."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder:
        script, trace = Path(folder) / "script.jsonl", Path(folder) / "trace.jsonl"
        script.write_text("\n".join(json.dumps(line) for line in SCRIPT), encoding="utf-8")
        words = ["ask", QUESTION, "--docs", str(HANDBOOK), "--model", f"scripted:{script}", "--borrow", "published"]
        words += ["--set", "verifier=structured", "--set", "cache=false", "--quiet", "--trace", str(trace)]
        assert main(words) == 0
        with ViewServer(TraceSource(trace)) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=root)
            page = browser.new_page(viewport=SIZE, device_scale_factor=1)  # type: ignore[arg-type]
            page.goto(server.key.address)
            page.get_by_role("heading", name="Belief", exact=True).wait_for(timeout=60_000)
            picture = Image.open(io.BytesIO(page.screenshot()))
            browser.close()
    # A page has few colours: a palette makes the file a third as large.
    picture.convert("RGB").quantize(128).save(target, optimize=True)


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("view.png"))
