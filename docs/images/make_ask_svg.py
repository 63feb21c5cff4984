"""Draws docs/images/ask.svg: the display of `beliefrag ask`, from an episode on the bundled corpus.

The model is scripted, so the picture needs no weights and is the same on every machine. Run it again whenever the
display changes: python docs/images/make_ask_svg.py
"""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from beliefrag.cli.ask import describe_calibration, run_episode
from beliefrag.cli.live import LiveDisplay
from beliefrag.demo import load_passages
from beliefrag.opening import assemble
from beliefrag.settings import Settings
from beliefrag.types import Question

WIDTH = 80
QUESTION = Question("In which town was the designer of the polar ship Fram born?")
FONTS = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'


def _verdict(support: float, gap: float, uncertainty: float, unhelpful: list[int]) -> dict[str, Any]:
    scores = {"support": support, "conflict": 0.0, "gap": gap, "uncertainty": uncertainty}
    return {"purpose": "verifier", "reply": {"unhelpful_doc_ids": unhelpful, **scores}}


SCRIPT = [
    _verdict(0.3, 0.8, 0.6, [2, 3]),
    _verdict(0.3, 0.8, 0.6, []),
    {"purpose": "rewriter", "reply": "Colin Archer birthplace"},
    {"purpose": "query_writer", "reply": "Colin Archer born town"},
    _verdict(0.95, 0.05, 0.05, []),
    {"purpose": "answer", "reply": "Larvik"},
]


def draw() -> str:
    """The picture as SVG."""
    # Not a terminal: the display then draws its moving part once, as it stands in the end.
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, color_system="truecolor", markup=False, highlight=False
    )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.jsonl"
        script.write_text("\n".join(json.dumps(line) for line in SCRIPT), encoding="utf-8")
        given = {"model": f"scripted:{script}", "borrow": "published", "cache": False}
        settings = Settings.model_validate(given)
        assembly = assemble(settings, passages=load_passages())
        words = describe_calibration(assembly)
        display = LiveDisplay(console, calibration=words, threshold=settings.thresholds.answer)
        asyncio.run(run_episode(QUESTION, assembly, display=display, trace=None))
    return offline(console.export_svg(title="beliefrag ask", unique_id="ask"))


def offline(svg: str) -> str:
    """The picture without the fonts that it would fetch from the network."""
    svg = re.sub(r"@font-face\s*\{[^}]*\}\s*", "", svg)
    return re.sub(r"font-family:\s*(Fira Code|arial)[^;]*;", f"font-family: {FONTS};", svg)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("ask.svg")
    target.write_text(draw(), encoding="utf-8")
