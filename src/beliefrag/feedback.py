"""What people said about earlier answers, in the file that the page to ask in keeps."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from beliefrag.record import Episode

FEEDBACK = Path("feedback.jsonl")
"""Where verdicts are kept unless `--feedback` names another file."""


def find_correction(path: Path, episode: Episode) -> str | None:
    """Return a sentence if the last verdict on a question was that this very answer is wrong, else None."""
    given, asked = episode.short_answer or episode.answer, " ".join(episode.asked.split())
    last: dict[str, Any] = {}
    for line in path.read_bytes().splitlines() if given and path.is_file() else ():
        with suppress(ValueError):  # a line that a full disk cut off
            record = json.loads(line)
            last = record if isinstance(record, dict) and record.get("question") == asked else last
    if not given or last.get("feedback") not in {"wrong", "corrected"} or last.get("given") != given:
        return None
    right = f" The right answer, it was said then, is: {last['answers'][0]}" if last.get("answers") else ""
    return f"This answer was marked wrong on {str(last.get('at'))[:10]}.{right}"
