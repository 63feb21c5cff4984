"""What the loop itself costs: the time of an episode that is spent neither in the model nor in the retriever.

    python -m benchmarks.overhead [--model local:NAME] [--questions 4] [--out FILE]

Runs questions of the bundled corpus with a real model, with nothing cached, and times the provider and the retriever
from the inside. Then the indexing and search speed as ratios to the bare engine (benchmarks/overhead_retrieval.py).
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from beliefrag import __version__
from beliefrag.demo import load_passages, load_questions
from beliefrag.engine import loop
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest
from beliefrag.opening import assemble
from beliefrag.retrieval.protocol import Retriever
from beliefrag.settings import DEFAULT_MODEL, load_settings
from beliefrag.types import Hit


class TimedModel:
    """A model that knows how long it was at work."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.identity = model.identity
        self.seconds = 0.0

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Ask, and take the time."""
        began = time.perf_counter()
        try:
            return await self._model.chat(request)
        finally:
            self.seconds += time.perf_counter() - began

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()


class TimedRetriever:
    """A retriever that knows how long it was at work."""

    def __init__(self, retriever: Retriever) -> None:
        self._retriever = retriever
        self.identity = retriever.identity
        self.score_scale = retriever.score_scale
        self.seconds = 0.0

    def search(self, query: str, k: int) -> Sequence[Hit]:
        """Search, and take the time."""
        began = time.perf_counter()
        try:
            return self._retriever.search(query, k)
        finally:
            self.seconds += time.perf_counter() - began


async def measure(model_name: str, count: int) -> dict[str, Any]:
    """Run the first questions of the demo and add up who spent the time."""
    settings = load_settings({"model": model_name, "cache": False}).settings
    assembly = assemble(settings, passages=load_passages())
    model, retriever = TimedModel(assembly.model), TimedRetriever(assembly.harness.retriever)
    harness = replace(assembly.harness, model=model, retriever=retriever)
    episodes: list[dict[str, Any]] = []
    for question in load_questions()[:count]:
        model.seconds = retriever.seconds = 0.0
        began = time.perf_counter()
        episode = await loop.play(question.to_question(), assembly.method, harness)
        total = time.perf_counter() - began
        ours = total - model.seconds - retriever.seconds
        print(f"{question.id}: {episode.outcome}, {total:.1f} s, ours {1000 * ours:.1f} ms", flush=True)
        episodes.append(
            {
                "question": question.id,
                "outcome": episode.outcome,
                "steps": len(episode.steps),
                "calls": episode.usage.calls,
                "tokens": episode.usage.tokens,
                "seconds": round(total, 3),
                "model_seconds": round(model.seconds, 3),
                "retriever_seconds": round(retriever.seconds, 4),
                "ours_seconds": round(ours, 4),
            }
        )
    await model.aclose()
    ours_all = sum(each["ours_seconds"] for each in episodes)
    return {
        "model": model.identity,
        "episodes": episodes,
        "our_share": round(ours_all / sum(each["seconds"] for each in episodes), 6),
        "ours_ms_per_step": round(1000 * ours_all / sum(each["steps"] for each in episodes), 2),
    }


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--questions", type=int, default=4)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "beliefrag": __version__,
        "python": platform.python_version(),
        **asyncio.run(measure(given.model, given.questions)),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
