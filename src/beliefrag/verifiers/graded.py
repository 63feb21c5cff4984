"""Whole numbers from 0 to 10 after worked examples: for small models that give no token probabilities."""

from __future__ import annotations

from dataclasses import dataclass

from beliefrag.verifiers.structured import Structured

__all__ = ["Graded"]


@dataclass(frozen=True, slots=True)
class Graded(Structured):
    """Like `Structured`, with another prompt and another scale."""

    name: str = "graded"
    prompts: tuple[str, ...] = ("verifier_graded",)
    out_of: float = 10.0
    number: str = "integer"
