"""What tests of whole episodes need: a retriever with planned results and a scripted model on a temporary file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from beliefrag.calibration import load_artifact
from beliefrag.engine import loop
from beliefrag.engine.controller import Method
from beliefrag.engine.loop import Harness
from beliefrag.methods.beliefrag import BeliefRAGMethod
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer
from beliefrag.models.scripted import Scripted
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.prompts import Prompts
from beliefrag.record import Episode
from beliefrag.types import Budget, Hit, Passage, Question, Rules
from beliefrag.verifiers import build_verifier


class PlannedRetriever:
    """Returns the planned hits, search by search, and remembers the queries."""

    identity: str | None = None
    score_scale = ScoreScale(location=20.0, scale=8.0)

    def __init__(self, *searches: Sequence[Hit]) -> None:
        self.searches = list(searches)
        self.queries: list[str] = []

    def search(self, query: str, k: int) -> Sequence[Hit]:
        self.queries.append(query)
        return self.searches[min(len(self.queries), len(self.searches)) - 1]


def hits(*ids: str, score: float = 20.0) -> list[Hit]:
    """Return hits with distinct texts and falling scores."""
    return [
        Hit(Passage(i, i.replace("_", " "), f"{i} alpha{i} beta{i} gamma{i}"), score - rank)
        for rank, i in enumerate(ids)
    ]


def verdict(
    support: float, gap: float, uncertainty: float, conflict: float = 0.0, unhelpful: Sequence[object] = ()
) -> dict[str, Any]:
    """Return a verifier line for a script."""
    reply = {
        "unhelpful_doc_ids": list(unhelpful),
        "support": support,
        "conflict": conflict,
        "gap": gap,
        "uncertainty": uncertainty,
    }
    return {"purpose": "verifier", "reply": reply}


def script(folder: Path, *lines: Mapping[str, Any]) -> Scripted:
    """Return a scripted model with these lines."""
    file = folder / "script.jsonl"
    file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return Scripted(file)


class PricedModel(ModelLayer):
    """A model whose prompts have the planned tokens by purpose, and else one token for three characters."""

    def __init__(self, model: ChatModel, **prices: int) -> None:
        super().__init__(model)
        self._prices = prices

    async def chat(self, request: ChatRequest) -> ChatReply:
        characters = sum(len(message.content) for message in request.messages)
        tokens = self._prices.get(request.purpose, math.ceil(characters / 3))
        return replace(await self._model.chat(request), tokens_in=tokens)


def published_method(
    scale: ScoreScale = ScoreScale(20.0, 8.0), thresholds: Thresholds = Thresholds()
) -> BeliefRAGMethod:
    """BeliefRAG with the published coefficients."""
    return BeliefRAGMethod(load_artifact("published").calibration(scale), thresholds)


async def play(
    model: ChatModel,
    retriever: Any,
    *,
    question: str = "Which?",
    method: Method | None = None,
    budget: Budget = Budget(),
    pack: int | None = None,
    verifier: str = "structured",
    rules: Rules = Rules(),
) -> Episode:
    """Run one episode to its end."""
    harness = Harness(model, retriever, Prompts.load(), build_verifier(verifier), budget, pack=pack, rules=rules)
    return await loop.play(Question(question), method or published_method(), harness)
