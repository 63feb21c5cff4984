"""A corpus and a scripted model for adapters, and vectors that count words: a real embedding, if a simple one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

from beliefrag import BeliefRAG, Retriever
from beliefrag.types import Passage
from tests.support.episodes import verdict

TEXTS = {
    "fram": "The polar ship Fram was designed by Colin Archer.",
    "archer": "Colin Archer was born in Larvik.",
    "gjoa": "The sloop Gjøa carried Amundsen through the ice.",
}
PASSAGES = [Passage(name, name.title(), text, f"{name}.md") for name, text in TEXTS.items()]
QUESTION = "Who designed the polar ship Fram?"
SURE = verdict(0.95, 0.0, 0.05) | {"repeat": True}
UNSURE = verdict(0.0, 1.0, 1.0) | {"repeat": True}
ANSWER = {"purpose": "answer", "reply": "Colin Archer", "repeat": True}

DECLINING: dict[str, Any] = {
    "budget": {"rounds": 1},
    "thresholds": {"abstain_answerability": 0.55, "abstain_sufficiency": 0.5, "correct_unreliable": False},
}
"""Settings under which a model that is unsure declines at once."""


def settings(folder: Path, *lines: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to open BeliefRAG with: a scripted model that is sure unless told otherwise."""
    script = folder / "model.jsonl"
    script.write_text("\n".join(json.dumps(line) for line in lines or (SURE, ANSWER)), encoding="utf-8")
    return {"model": f"scripted:{script}", "borrow": "published", "cache": False, "retry_seconds": 0}


def counted(text: str, size: int = 64) -> list[float]:
    """Return the words of a text, counted in hashed places."""
    vector = [0.0] * size
    for word in re.findall(r"\w+", text.lower()):
        vector[crc32(word.encode()) % size] += 1.0
    return vector


def check_hostile(retriever: Retriever, folder: Path) -> None:
    """Of two passages, the one that attacks stays inside its delimiters in every prompt."""
    with BeliefRAG(retriever=retriever, **settings(folder)) as rag:
        episode = rag.ask(QUESTION)
    assert episode.answer == "Colin Archer" and episode.calls
    for call in episode.calls:
        prompt = call.messages[1]["content"]
        assert len(re.findall(r"^<passage id=\"\d+\".*</passage>$", prompt, re.MULTILINE)) == 2
        assert prompt.count("<passage") == 2
        assert "<|" not in prompt
