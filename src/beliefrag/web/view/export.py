"""One episode as one HTML file that needs no other file.

Script and style are allowed by their hashes alone. No character of the episode's JSON can end the element that has it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from beliefrag.record import to_json_line
from beliefrag.web.view.schema import EpisodeView, PromptsView


def read_asset(name: str) -> str:
    """Read one of the built files that come with the package."""
    return (files("beliefrag.web.view") / "assets" / name).read_text(encoding="utf-8")


def export_page(episode: EpisodeView, prompts: PromptsView) -> str:
    """Return the whole file."""
    script, style = read_asset("app.js"), read_asset("app.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    data = f'{{"episode":{to_json_line(episode)},"prompts":{to_json_line(prompts)}}}'
    for character in "&<>":
        data = data.replace(character, f"\\u{ord(character):04x}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>BeliefRAG episode</title>\n<style>{style}</style>\n</head>\n<body>\n"
        "<noscript>This page needs its script to show the episode, and scripts are switched off.</noscript>\n"
        f'<script type="application/json" id="exported">{data}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def export_name(episode: EpisodeView) -> str:
    """Return a file name for the episode, with harmless characters only."""
    record = episode.record
    words = " ".join(("episode", record.dataset, record.question.id or (episode.question or ""), record.method))
    return re.sub(r"[^A-Za-z0-9]+", "-", words)[:80].strip("-") + ".html"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
