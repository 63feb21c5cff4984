"""Draw the two pictures of docs/architecture.md: the loop as it runs by default, and the rooms of the code.

Every box names the files that it is about; a test checks that they exist. Run it after a change:
python docs/images/make_ways_svg.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
WIDTH, LEFT, BOX, ROW = 500, 64, 52, 72
STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:16px;fill:#1f2933}"
    ".file{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:12.5px;fill:#52606d}"
    ".back text{fill:#24527a;font-size:14px}"
    "rect{fill:#f5f7fa;stroke:#7b8794}.loop rect{fill:#e6f0fa;stroke:#3b7cb8}"
    "path{stroke:#7b8794;fill:none;stroke-width:1.5}.back path{stroke:#3b7cb8}"
)


@dataclass(frozen=True)
class Box:
    """What happens or is kept, and in which files or folders of src/beliefrag."""

    words: str
    files: tuple[str, ...]
    in_loop: bool = False
    """Whether it is done again and again until the episode ends."""


LOOP = (
    Box("A question", ("cli/ask.py", "web/http", "client.py")),
    Box("Search the documents, follow names", ("retrieval/linked",), in_loop=True),
    Box("Choose the best sentences of what was found", ("answering/packing.py",), in_loop=True),
    Box("Ask the model once for an answer", ("engine/calls.py", "models"), in_loop=True),
    Box("Measure: draft and evidence give diagnostics", ("verifiers/reading.py",), in_loop=True),
    Box("Believe: six beliefs, two probabilities", ("policy/belief.py",), in_loop=True),
    Box("Decide: the first rule that applies", ("policy/decide.py",), in_loop=True),
    Box("Answer with quotes, or decline", ("engine/loop.py", "record.py")),
)
ROOMS = (
    Box("People and programs", ("cli", "web", "integrations", "doctor.py")),
    Box("Experiments", ("reproduce.py", "studies", "calibrate.py", "bench", "report")),
    Box("Putting the parts together", ("client.py", "opening.py", "calibration", "runs")),
    Box("The loop and the methods", ("methods", "engine", "verifiers", "answering")),
    Box("Models and documents", ("prompts", "models", "retrieval")),
    Box("What is recorded and set", ("explanation.py", "record.py", "settings.py")),
    Box("The paper's method, pure", ("policy",), in_loop=True),
    Box("Values and errors", ("registry.py", "types.py", "errors.py")),
)


def draw(title: str, boxes: tuple[Box, ...], back: str) -> str:
    """Return the picture as SVG: boxes from top to bottom, with an arrow back around those of the loop."""
    height = ROW * len(boxes) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        '<rect x="0" y="0" width="100%" height="100%" style="fill:#fff;stroke:none"/>',
    ]
    for place, box in enumerate(boxes):
        top = 12 + ROW * place
        group = ' class="loop"' if box.in_loop else ""
        parts.append(
            f'<g{group}><rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 12}" height="{BOX}" rx="8"/>'
            f'<text x="{LEFT + 14}" y="{top + 22}">{escape(box.words)}</text>'
            f'<text class="file" x="{LEFT + 14}" y="{top + 42}">{escape(" · ".join(box.files))}</text></g>'
        )
        if place + 1 < len(boxes):
            parts.append(f'<path d="M{(WIDTH + LEFT) // 2} {top + BOX}v{ROW - BOX}m-5 -6l5 6l5 -6"/>')
    return "\n".join([*parts, *(_arrow_back(boxes, back) if back else ()), "</svg>\n"])


def _arrow_back(boxes: tuple[Box, ...], words: str) -> Iterator[str]:
    first = next(place for place, box in enumerate(boxes) if box.in_loop)
    last = max(place for place, box in enumerate(boxes) if box.in_loop)
    low, high = 12 + ROW * last + BOX // 2, 12 + ROW * first + BOX // 2
    middle = (low + high) // 2
    yield (
        f'<g class="back"><path d="M{LEFT} {low}H34V{high}H{LEFT - 2}m-6 -5l6 5l-6 5"/>'
        f'<text x="22" y="{middle}" transform="rotate(-90 22 {middle})" text-anchor="middle">{escape(words)}</text></g>'
    )


PICTURES = {
    "way_of_a_question.svg": draw("The loop, as it runs by default", LOOP, "if another search is likely to help"),
    "architecture.svg": draw("The rooms of the code; imports go down", ROOMS, ""),
}

if __name__ == "__main__":
    for name, text in PICTURES.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
