"""Whether a model gives the same answers through the OpenAI protocol as in this process.

    python -m benchmarks.served [--n 20] [--model qwen2.5-coder-1.5b --model smollm2-135m] [--out FILE]

The same weights answer the demo's questions twice: in this process, and behind llama.cpp's own HTTP server on loopback,
asked with the provider of served models. Each question is asked with the sentences that the default profile shows it,
once with and once without token probabilities. Both keep what they have read of the prompt before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from beliefrag import __version__
from beliefrag.answering.packing import pack_passages
from beliefrag.demo import load_passages, load_questions
from beliefrag.models import ChatModel, ChatReply, ChatRequest, Message
from beliefrag.models.embedded import Embedded
from beliefrag.models.openai_compatible import OpenAICompatible
from beliefrag.models.weights import resolve
from beliefrag.opening import assemble
from beliefrag.prompts import Prompts, escape, evidence_block, read_answer
from beliefrag.settings import PROFILES, Settings

__all__ = ["compare", "serve"]

_THREADS = 2
_CONTEXT = 2048
_TOP = 5


def _requests(n: int) -> list[ChatRequest]:
    """Return the answer prompt of each question, as the default profile fills it in after one search."""
    prompts, passages = Prompts.load(), load_passages()
    retriever = assemble(Settings(model="local:qwen2.5-coder-1.5b", cache=False), passages=passages).harness.retriever
    made = []
    for question in load_questions()[:n]:
        hits = retriever.search(question.question, 5)
        found, scores = [hit.passage for hit in hits], [hit.score for hit in hits]
        packed = pack_passages(question.question, found, PROFILES["default"].pack or 0, scores=scores)
        evidence = evidence_block([each.shown for each in packed] or found)
        filled = prompts.fill("answer", question=escape(question.question), evidence=evidence)
        messages = (Message("system", prompts.fill("system")), Message("user", filled))
        made.append(ChatRequest("answer", messages, max_tokens=48))
    return made


@contextlib.contextmanager
def serve(path: Path) -> Iterator[tuple[str, str]]:
    """Serve weights with llama.cpp's HTTP server; yield its base URL and its key."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import xllamacpp  # noqa: PLC0415 - after the policy

    key = secrets.token_urlsafe(16)
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = _CONTEXT
    parameters.n_parallel = 1
    parameters.n_batch = parameters.n_ubatch = 128
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _THREADS
    parameters.cache_ram_mib = 512
    parameters.enable_reasoning = 0
    parameters.warmup = False
    parameters.verbosity = 0
    parameters.api_keys = [key]
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1", key
    del server


@contextlib.asynccontextmanager
async def _closing(model: ChatModel) -> AsyncIterator[ChatModel]:
    try:
        yield model
    finally:
        await model.aclose()


async def _ask_all(model: ChatModel, requests: Sequence[ChatRequest]) -> list[tuple[ChatReply, ChatReply]]:
    replies = []
    async with _closing(model):
        for request in requests:
            with_tokens = await model.chat(replace(request, top_logprobs=_TOP))
            replies.append((with_tokens, await model.chat(request)))
            print(".", end="", flush=True)
    print(flush=True)
    return replies


def compare(name: str, requests: Sequence[ChatRequest]) -> dict[str, Any]:
    """Ask everything twice, and return what differs."""
    path = resolve(f"local:{name}")
    embedded = Embedded(path, context=_CONTEXT, threads=_THREADS)
    identity = embedded.identity
    here = asyncio.run(_ask_all(embedded, requests))
    with serve(path) as (url, key):
        served = OpenAICompatible(name, url, key, timeout=3600)
        there = asyncio.run(_ask_all(served, requests))
    pairs = list(zip(here, there, strict=True))
    rows: list[dict[str, Any]] = [
        {
            "in_process": read_answer(mine[0].text),
            "with_probabilities": read_answer(mine[0].text) == read_answer(other[0].text),
            "without": read_answer(mine[1].text) == read_answer(other[1].text),
            "least_token": [round(each.least_token or 0.0, 4) for each in (mine[0], other[0])],
        }
        for mine, other in pairs
    ]
    least = [abs(row["least_token"][0] - row["least_token"][1]) for row in rows]
    return {
        "model": identity,
        "n": len(rows),
        "same_answers_with_probabilities": sum(row["with_probabilities"] for row in rows),
        "same_answers_without": sum(row["without"] for row in rows),
        "same_tokens_in": sum(mine[0].tokens_in == other[0].tokens_in for mine, other in pairs),
        "largest_difference_of_least_token": max(least),
        "rows": rows,
    }


def main() -> None:
    """Compare, print, and write a file where one is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=20)
    parser.add_argument("--model", action="append")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    requests = _requests(chosen.n)
    found: dict[str, Any] = {"date": datetime.now(UTC).date().isoformat(), "beliefrag": __version__, "models": []}
    for name in chosen.model or ["smollm2-135m", "qwen2.5-coder-1.5b"]:
        found["models"].append(compare(name, requests))
        if chosen.out:
            chosen.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
