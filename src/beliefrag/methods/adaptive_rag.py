"""Adaptive-RAG: one look at the question decides how much is searched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from beliefrag.engine.calls import ModelCalls
from beliefrag.engine.controller import Controller, Measurement, Method, View
from beliefrag.errors import ReplyError, TokensSpent, UnreadableReply
from beliefrag.methods import METHODS, TypicalCost
from beliefrag.methods.decisions import can_search
from beliefrag.methods.iterative import Iterative
from beliefrag.methods.no_rag import NoRag
from beliefrag.methods.static import Static
from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import Repairs, escape, read_line
from beliefrag.types import Decision

# A word after the letter makes it an article ("A search is needed"), and no class.
_LETTER = re.compile(r"\W*(?:class\W*)?([ABC])(?!\w|\s+\w)", re.IGNORECASE)


@METHODS.register(
    "adaptive_rag",
    title="Adaptive-RAG",
    summary="Chooses no search, one search or all searches by how hard the question looks.",
    cost=TypicalCost(3.2, 2_750, 30),
)
@dataclass(frozen=True, slots=True)
class AdaptiveRag:
    """Routes each question once, by its predicted complexity, to No-RAG, Static or Iterative (Jeong et al., 2024).

    The original trains a classifier, and its third strategy is IRCoT; here the classifier is a prompt to the shared
    model. A reply that names no class, twice, means one search.
    """

    name: ClassVar[str] = "adaptive_rag"

    def begin(self) -> Controller:
        """Return a controller that has not chosen its route yet."""
        return _Controller()


class _Controller:
    def __init__(self) -> None:
        self._route: Controller | None = None

    async def measure(self, view: View, calls: ModelCalls) -> Measurement:
        if self._route is None:
            self._route = await _route(view, calls)
        return await self._route.measure(view, calls)

    def decide(self, view: View, measurement: Measurement) -> Decision:
        assert self._route is not None
        return self._route.decide(view, measurement)


async def _route(view: View, calls: ModelCalls) -> Controller:
    # Where nothing can be searched all routes are the same, and asking for one would cost tokens for nothing.
    if not can_search(view):
        return Static().begin()
    try:
        return await calls.ask("router", "router", {"question": escape(view.question.text)}, _read_route)
    except (UnreadableReply, TokensSpent):
        return Static().begin()


def _read_route(reply: ChatReply, repairs: Repairs) -> Controller:
    found = _LETTER.match(read_line(reply.text))
    if found is None:
        raise ReplyError("The reply is none of the letters A, B and C.")
    routes: dict[str, Method] = {"A": NoRag(), "B": Static(), "C": Iterative()}
    return routes[found.group(1).upper()].begin()
