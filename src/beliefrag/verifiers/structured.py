"""The paper's form: one JSON object with four floats and the unhelpful ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beliefrag.engine.replies import Repairs, json_object
from beliefrag.models.protocol import ChatReply
from beliefrag.types import Observation, Passage
from beliefrag.verifiers.form import Asker, read_ids, read_score

__all__ = ["Structured"]

SCORES = ("support", "conflict", "gap", "uncertainty")


@dataclass(frozen=True, slots=True)
class Structured:
    """Scores as floats in [0, 1], in one call. The default for endpoints."""

    name: str = "structured"
    prompts: tuple[str, ...] = ("verifier",)
    out_of: float = 1.0
    number: str = "number"

    async def observe(self, asker: Asker, fields: Mapping[str, str], passages: Sequence[Passage]) -> Observation:
        """Asks once."""

        def read(reply: ChatReply, repairs: Repairs) -> Observation:
            found = json_object(reply.text, repairs)
            support, conflict, gap, uncertainty = (
                read_score(found, name, repairs, out_of=self.out_of) for name in SCORES
            )
            unhelpful = read_ids(found.get("unhelpful_doc_ids"), passages, repairs)
            return Observation(support, conflict, uncertainty, gap, unhelpful)

        return await asker.ask("verifier", self.prompts[0], fields, read, schema=self._schema(len(passages)))

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
