"""The two setups of the one controller: what the paper has, and what users get.

A profile is a bundle of settings. It fills in what neither the user nor a settings file has set.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from beliefrag.policy import Thresholds

DECLINE_BELOW = 0.41
"""Where questions are asked, an answer that is less likely right than this is not given.

It was chosen on train questions whose supporting passages were removed (`benchmarks.decide.decline`): fewer than one in
five of them are answered. The paper's own numbers cannot give less than 0.408.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """How a method searches, what its prompts show and what its verifier is."""

    name: str
    retriever: str
    pack: int | None
    """The most words of evidence in a prompt; None shows whole passages."""
    reads_draft: bool
    """Whether all diagnostics come from one drafted answer (`draft`, or `stated` without token probabilities)."""
    corrects: bool
    """Whether conflict, unreliable evidence and flagged passages start a correction."""

    def apply_to(self, thresholds: Thresholds) -> Thresholds:
        """Return the thresholds with the corrections that this profile leaves out switched off."""
        if self.corrects:
            return thresholds
        switches = {each.name: False for each in fields(Thresholds) if each.name.startswith("correct_")}
        return replace(thresholds, **switches)


PROFILES = {
    "paper": Profile("paper", retriever="bm25", pack=None, reads_draft=False, corrects=True),
    "default": Profile("default", retriever="linked", pack=160, reads_draft=True, corrects=False),
}
