"""The prompts: one text file each, versioned with the code, replaceable by a folder of the user's own."""

from beliefrag.prompts.escaping import escape, evidence_block, unescape
from beliefrag.prompts.library import NAMES, Prompts

__all__ = ["NAMES", "Prompts", "escape", "evidence_block", "unescape"]
