"""One JSON object with four scores and the unhelpful ids: as floats, or as whole numbers after worked examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from beliefrag.models.protocol import ChatReply
from beliefrag.prompts import Repairs, read_json_object
from beliefrag.registry import TypicalCost
from beliefrag.types import Observation
from beliefrag.verifiers import VERIFIERS, Asker, Look, read_ids, read_score

SCORES = ("support", "conflict", "gap", "uncertainty")


@VERIFIERS.register(
    "structured",
    title="Structured",
    summary="Asks once for scores between 0 and 1 in JSON; the paper's form, and the default for endpoints.",
    cost=TypicalCost(1, 950, 50),
)
@dataclass(frozen=True, slots=True)
class Structured:
    """Scores as floats in [0, 1], in one call."""

    name: ClassVar[str] = "structured"
    prompts: ClassVar[tuple[str, ...]] = ("verifier",)
    out_of: ClassVar[float] = 1.0
    number: ClassVar[str] = "number"

    async def observe(self, asker: Asker, fields: Mapping[str, str], look: Look) -> Observation:
        """Ask once."""

        def read(reply: ChatReply, repairs: Repairs) -> Observation:
            found = read_json_object(reply.text, repairs)
            support, conflict, gap, uncertainty = (
                read_score(found, name, repairs, out_of=self.out_of) for name in SCORES
            )
            unhelpful = read_ids(found.get("unhelpful_doc_ids"), look.passages, repairs)
            return Observation(support, conflict, uncertainty, gap, unhelpful)

        return await asker.ask("verifier", self.prompts[0], fields, read, schema=self._schema(len(look.passages)))

    def _schema(self, shown: int) -> dict[str, Any]:
        # The ids come before the scores: a small model scores better once it has looked at each passage.
        numbers = {"type": "integer", "enum": list(range(1, shown + 1))}
        properties: dict[str, Any] = {"unhelpful_doc_ids": {"type": "array", "items": numbers}}
        properties |= {name: {"type": self.number} for name in SCORES}
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


@VERIFIERS.register(
    "graded",
    title="Graded",
    summary="Asks once for whole numbers from 0 to 10, after worked examples; for small models.",
    cost=TypicalCost(1, 1_330, 50),
)
@dataclass(frozen=True, slots=True)
class Graded(Structured):
    """Like `Structured`, with another prompt and another scale: for small models that give no token probabilities."""

    name: ClassVar[str] = "graded"
    prompts: ClassVar[tuple[str, ...]] = ("verifier_graded",)
    out_of: ClassVar[float] = 10.0
    number: ClassVar[str] = "integer"
