"""The picture of the display in the documentation."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ADDRESS = re.compile(r"(?:src|href)\s*=|url\((?!#)|@import|@font-face|https?://(?!www\.w3\.org/2000/svg)[^\s>]*")


def test_the_picture_shows_an_episode_and_fetches_nothing(home: Path) -> None:
    drawn = runpy.run_path(str(IMAGES / "make_ask_svg.py"))["draw"]()
    kept = (IMAGES / "ask.svg").read_text(encoding="utf-8")
    for picture in (drawn, kept):
        text = re.sub(r"<[^>]+>", "", picture).replace("&#160;", " ")
        for expected in ("search", "check", "rephrase", "answer", "likely right", "Larvik", "confidence", "because"):
            assert expected in text
        # Rich names itself in a comment, which nobody fetches.
        assert ADDRESS.findall(re.sub(r"<!--.*?-->", "", picture, flags=re.DOTALL)) == []
