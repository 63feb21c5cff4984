"""The prompts: one text file each, versioned with the code, replaceable by a folder of the user's own.

Untrusted text is escaped before it is filled in so that it cannot pass for anything else: see
`beliefrag.prompts.escaping`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from beliefrag.errors import SettingsError
from beliefrag.prompts.escaping import escape, unescape
from beliefrag.types import Passage

__all__ = ["NAMES", "Prompts", "escape", "evidence_block", "unescape"]

FIELDS: Mapping[str, frozenset[str]] = {
    "system": frozenset(),
    "verifier": frozenset({"question", "evidence", "draft"}),
    "verifier_graded": frozenset({"question", "evidence", "draft"}),
    "verifier_support": frozenset({"question", "evidence", "draft"}),
    "verifier_complete": frozenset({"question", "evidence"}),
    "verifier_agree": frozenset({"question", "evidence"}),
    "verifier_helps": frozenset({"question", "evidence"}),
    "verifier_slots": frozenset({"question", "evidence", "draft"}),
    "query_writer": frozenset({"question", "evidence", "prior_queries"}),
    "query_corrector": frozenset({"question", "evidence", "prior_queries", "reason"}),
    "rewriter": frozenset({"question", "query", "reason"}),
    "answer": frozenset({"question", "evidence"}),
    "stated_answer": frozenset({"question", "evidence"}),
    "grader": frozenset({"question", "evidence"}),
    "trigger": frozenset({"question", "evidence"}),
    "router": frozenset({"question"}),
    "reasoner": frozenset({"question", "evidence", "reasoning"}),
    "search_dialogue": frozenset({"question"}),
    "judge": frozenset({"question", "golds", "prediction"}),
    "question_maker": frozenset({"evidence"}),
    "two_hop_question_maker": frozenset({"evidence", "bridge"}),
}
"""Each prompt and the fields that it may use."""

NAMES = tuple(FIELDS)

# Only these names in braces are fields; a JSON example in a template keeps its braces.
_FIELD = re.compile(r"\{(" + "|".join(sorted(frozenset().union(*FIELDS.values()))) + r")\}")


@dataclass(frozen=True, slots=True)
class Prompts:
    """A set of templates; a folder with files named like ours (`answer.txt`, ...) replaces some or all of them."""

    templates: Mapping[str, str]

    @classmethod
    def load(cls, folder: Path | None = None) -> Prompts:
        """Read the shipped prompts, and those in `folder` over them."""
        return cls(_read_shipped() | (_read_replacements(folder) if folder is not None else {}))

    def fill(self, prompt: str, **values: str) -> str:
        """Replace the fields of the template in one pass: text that was filled in is never looked at again."""
        return _FIELD.sub(lambda match: values[match.group(1)], self.templates[prompt])

    def hashes(self) -> dict[str, str]:
        """Return the shortened SHA-256 of each template, which runs record and artifacts are checked against."""
        return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in self.templates.items()}


@cache
def _read_shipped() -> dict[str, str]:
    shipped = resources.files(__package__)
    return {name: (shipped / f"{name}.txt").read_text(encoding="utf-8").strip() for name in NAMES}


def _read_replacements(folder: Path) -> dict[str, str]:
    try:
        files = sorted(folder.glob("*.txt"))
        found = {file.stem: file.read_text(encoding="utf-8").strip() for file in files}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"Cannot read the prompts in {folder}: {error}.") from error
    if not found:
        raise SettingsError(
            f"No prompt files in {folder}.", remedy=f"Put files there named {', '.join(f'{n}.txt' for n in NAMES)}."
        )
    for name, text in found.items():
        if name not in FIELDS:
            raise SettingsError(f"{name}.txt in {folder} is not a prompt.", remedy=f"Known: {', '.join(NAMES)}.")
        used = set(_FIELD.findall(text))
        if stray := used - FIELDS[name]:
            raise SettingsError(
                f"The prompt {name}.txt uses {{{min(stray)}}}, which it is not given.",
                remedy=f"It may use {', '.join(sorted(FIELDS[name])) or 'no fields'}.",
            )
        needed = "question" if "question" in FIELDS[name] else "evidence"
        if FIELDS[name] and needed not in used:
            raise SettingsError(f"The prompt {name}.txt never mentions {{{needed}}}.", remedy="Add the field.")
    return found


def evidence_block(passages: Sequence[Passage]) -> str:
    """Return the passages, numbered from 1 in their order, each on one delimited line.

    Numbers replace ids: a small model copies them without slips, and no file name reaches a prompt.
    """
    if not passages:
        return "(no passages)"
    return "\n".join(_passage_line(number, passage) for number, passage in enumerate(passages, start=1))


def _passage_line(number: int, passage: Passage) -> str:
    title = escape(passage.title).replace('"', "'")
    heading = f' title="{title}"' if title else ""
    return f'<passage id="{number}"{heading}>{escape(passage.text)}</passage>'
