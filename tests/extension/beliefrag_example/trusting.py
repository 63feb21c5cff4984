"""A verifier form: believes all evidence, without a model call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from beliefrag.types import Observation
from beliefrag.verifiers import VERIFIERS, Asker, Look


@VERIFIERS.register("trusting", title="Trusting", summary="Believes all evidence, without a model call.")
@dataclass(frozen=True, slots=True)
class Trusting:
    """The support that it reports is an option: `--verifier trusting:support=0.9`."""

    name: ClassVar[str] = "trusting"
    prompts: ClassVar[tuple[str, ...]] = ()
    support: float = 1.0

    async def observe(self, asker: Asker, fields: Mapping[str, str], look: Look) -> Observation:
        """Return the same for every evidence."""
        return Observation(self.support, conflict=0.0, uncertainty=0.0, gap=1.0 - self.support)
