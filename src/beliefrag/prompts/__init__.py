"""The prompts: one text file each, versioned with the code, replaceable by a folder of the user's own."""

from beliefrag.prompts.library import NAMES, Prompts
from beliefrag.prompts.material import evidence_block, neutral, restored

__all__ = ["NAMES", "Prompts", "evidence_block", "neutral", "restored"]
