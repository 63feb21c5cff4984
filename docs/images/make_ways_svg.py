"""Draws the two pictures of docs/architecture.md: the way of one question and the way of one benchmark episode.

Every box names the file that does the step; a test checks that these files exist. Run it after a change:
python docs/images/make_ways_svg.py
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
WIDTH, BOX, ROW, GAP = 760, 46, 68, 24
STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:14px;fill:#1f2933}"
    ".file{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12px;fill:#52606d}"
    "rect{fill:#f5f7fa;stroke:#7b8794}.loop rect{fill:#e6f0fa;stroke:#3b7cb8}"
    "path{stroke:#7b8794;fill:none;stroke-width:1.5}.back{stroke:#3b7cb8}"
)


@dataclass(frozen=True)
class Box:
    """One step: what happens, and in which file of src/beliefrag."""

    words: str
    file: str
    in_loop: bool = False
    """Whether the step is made again and again until the episode ends."""


QUESTION = (
    Box("The options become settings", "cli/ask.py"),
    Box("Model, prompts, verifier form and calibration are opened", "opening.py"),
    Box("The documents become an index that can be searched", "retrieval/protocol.py"),
    Box("The method measures the evidence; it may ask the model", "methods/beliefrag.py", in_loop=True),
    Box("A prompt is filled in, asked and its reply read", "engine/calls.py", in_loop=True),
    Box("Diagnostics, belief and probabilities lead to a decision", "policy/decide.py", in_loop=True),
    Box("The loop carries out the action, within the budget", "engine/loop.py", in_loop=True),
    Box("Steps and ending become one record", "record.py"),
    Box("The terminal shows them", "cli/ask.py"),
)
EPISODE = (
    Box("A specification names datasets, methods and questions", "bench/setup.py"),
    Box("The same engine is opened, once for all episodes", "opening.py"),
    Box("The runner takes the next question, without its gold answer", "bench/runner.py", in_loop=True),
    Box("The loop runs the method, as for any question", "engine/loop.py", in_loop=True),
    Box("The result is scored against the gold answer", "bench/metrics.py", in_loop=True),
    Box("The judge says whether the answer is right, if it is asked", "bench/judge.py", in_loop=True),
    Box("The episode is written as one line and is on disk", "runs/run_files.py", in_loop=True),
    Box("The numbers get their intervals", "runs/summary.py"),
    Box("Tables and figures are written", "report/run_report.py"),
)


def draw(title: str, boxes: tuple[Box, ...]) -> str:
    """The picture as SVG: boxes from top to bottom, with an arrow back around those of the loop."""
    height = ROW * len(boxes) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        '<rect x="0" y="0" width="100%" height="100%" style="fill:#fff;stroke:none"/>',
    ]
    for place, box in enumerate(boxes):
        top = 8 + ROW * place
        group = ' class="loop"' if box.in_loop else ""
        parts.append(
            f'<g{group}><rect x="60" y="{top}" width="{WIDTH - 76}" height="{BOX}" rx="8"/>'
            f'<text x="76" y="{top + 28}">{escape(box.words)}</text>'
            f'<text class="file" x="{WIDTH - 32}" y="{top + 28}" text-anchor="end">{escape(box.file)}</text></g>'
        )
        if place + 1 < len(boxes):
            middle = WIDTH // 2
            parts.append(f'<path d="M{middle} {top + BOX}v{ROW - BOX}m-5 -6l5 6l5 -6"/>')
    first = next(place for place, box in enumerate(boxes) if box.in_loop)
    last = max(place for place, box in enumerate(boxes) if box.in_loop)
    low, high = 8 + ROW * last + BOX // 2, 8 + ROW * first + BOX // 2
    parts.append(f'<path class="back" d="M60 {low}H{GAP}V{high}H58m-6 -5l6 5l-6 5"/>')
    return "\n".join([*parts, "</svg>\n"])


PICTURES = {
    "way_of_a_question.svg": draw("The way of one question", QUESTION),
    "way_of_an_episode.svg": draw("The way of one benchmark episode", EPISODE),
}

if __name__ == "__main__":
    for name, text in PICTURES.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
