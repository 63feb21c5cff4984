"""Take docs/images/app.png: a question about examples/handbook on the page to ask in, in Debian's chromium.

The model is a script. Run it again whenever the page changes: python docs/images/make_app_png.py
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

HANDBOOK = Path(__file__).parents[2] / "examples" / "handbook"
QUESTION = "Who leads the office that approves trips above 800 euros?"
SIZE = {"width": 1240, "height": 700}
VERDICT = {"unhelpful_doc_ids": [], "support": 0.95, "conflict": 0.0, "gap": 0.0, "uncertainty": 0.0}
SCRIPT = [
    {"purpose": "verifier", "reply": VERDICT, "repeat": True},
    {"purpose": "answer", "reply": "Mirjam Dahl", "repeat": True},
    {"purpose": "write", "reply": "The finance office is led by Mirjam Dahl.", "repeat": True},
]


def take(target: Path) -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.jsonl"
        script.write_text("\n".join(json.dumps(line) for line in SCRIPT), encoding="utf-8")
        words = ["app", "--docs", str(HANDBOOK), "--model", f"scripted:{script}", "--set", "borrow=published"]
        words += ["--set", "verifier=structured", "--set", "cache=false", "--no-open", "--port", "0"]
        own = {**os.environ, "BELIEFRAG_CACHE_DIR": folder}
        line = [sys.executable, "-m", "beliefrag", *words]
        with subprocess.Popen(line, cwd=folder, env=own, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
            assert process.stderr is not None
            try:
                picture = take_answer(process.stderr.readline().removeprefix("app: ").strip())
            finally:
                process.terminate()
    picture.quantize(64).save(target, optimize=True)


def take_answer(address: str) -> Image.Image:
    """Ask the question, open its last quote, and return what is seen."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=root)
        page = browser.new_page(viewport=SIZE, device_scale_factor=1)  # type: ignore[arg-type]
        page.goto(address)
        page.get_by_label("Question", exact=True).fill(QUESTION)
        page.keyboard.press("Enter")
        page.locator(".quotes .open").last.click(timeout=60_000)
        page.locator(".document mark").first.wait_for()
        picture = Image.open(io.BytesIO(page.screenshot()))
        browser.close()
    return picture


if __name__ == "__main__":
    take(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("app.png"))
