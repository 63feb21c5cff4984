"""The prompts, one replaceable text file each, and the reading of the replies to them.

Untrusted text is escaped before it is filled in. Three things must not happen: a passage ends its own delimiter, a
passage imitates another one, or its text becomes a control token of the model's chat template (such as an end-of-turn
mark). They need an angle bracket, a mark with square brackets such as `[INST]`, or a line of their own: angle brackets
are replaced by look-alikes, marks are spaced out, and each piece of text is folded to a single line. Invisible
characters are removed, because they can hide text from the person who checks a trace while a model still reads it.

A reply is repaired where it is plain what is meant, and refused otherwise; both are counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import json_repair

from beliefrag.errors import ReplyError, SettingsError
from beliefrag.types import Passage

__all__ = [
    "NAMES",
    "Prompts",
    "Repairs",
    "escape",
    "evidence_block",
    "read_answer",
    "read_json_object",
    "read_line",
    "sentences_block",
    "unescape",
]

# Tokenizers that normalise (NFKC) turn the wide and small forms into the plain ones.
_ANGLES = str.maketrans({"<": "‹", "＜": "‹", "﹤": "‹", ">": "›", "＞": "›", "﹥": "›"})
_ANGLE = re.compile("[<>＜＞﹤﹥]")
# The marks of chat templates, in brackets plain or wide. The last bracket may be the first one of the next mark.
_MARK = re.compile(
    r"([\[［])(/?[A-Z_]{2,}|[gs]MASK|control_\d+|unused\d+|UNUSED_TOKEN_\d+|\|\w{3,}\|)(?=[\]］])"
    r"|([\[［])(e~)(?=[\[［])|([\]］])(~!?b|![pd]~)(?=[\]\[］［])"
)
# Unicode's Default_Ignorable_Code_Point, the other controls, marks of interlinear notes and of hieroglyphs' layout. Not
# the two joiners (U+200C, U+200D), without which Persian, Hindi and many others are misspelt; see _JOINER.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# A joiner is ordinary within a script that joins, within a picture, and around a word that was copied from a web page.
# Within a word or a mark of ASCII characters, or several in a row, it only hides something.
_JOINER = re.compile(r"(?<=[A-Za-z_\[\]|~/!])[\u200c\u200d](?=[A-Za-z_\[\]|~/!])|[\u200c\u200d]{2,}")
_BLANK = "\u2800"
"""Braille's blank looks like a space."""


def escape(text: str) -> str:
    """Return the text on one line, without angle brackets and invisible characters, safe between our delimiters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if not text.isascii():
        text = _JOINER.sub("", _INVISIBLE.sub("", text)).replace(_BLANK, " ")
    else:
        text = _INVISIBLE.sub("", text)
    if _ANGLE.search(text):
        text = text.translate(_ANGLES)
    return " ".join(_MARK.sub(_space_out, text).split())


def _space_out(mark: re.Match[str]) -> str:
    return " ".join((*filter(None, mark.groups()), ""))


def unescape(text: str) -> str:
    """Return a reply with the brackets of the original passages put back, for people to read."""
    return text.replace("‹", "<").replace("›", ">")


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
    "write": frozenset({"question", "evidence", "draft", "length"}),
    "gather": frozenset({"question", "evidence"}),
    "standalone": frozenset({"question", "history"}),
    "selector": frozenset({"question", "state", "actions"}),
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


def sentences_block(passages: Sequence[Passage]) -> str:
    """Return the passages in one delimited block, each on a line, without numbers: for replies that name no passage."""
    if not passages:
        return evidence_block(passages)
    lines = (": ".join(filter(None, (escape(each.title), escape(each.text)))) for each in passages)
    return "\n".join(("<passage>", *lines, "</passage>"))


def _passage_line(number: int, passage: Passage) -> str:
    title = escape(passage.title).replace('"', "'")
    heading = f' title="{title}"' if title else ""
    return f'<passage id="{number}"{heading}>{escape(passage.text)}</passage>'


Repairs = Counter[str]
"""How often each kind of repair was needed."""

_FENCE_OPENS = re.compile(r"```[a-zA-Z]*[ \t]*\n")
_OBJECT_BEGINS = re.compile(r"\{(?=\s*[\"}])")
_MOST_BROKEN_OBJECTS = 64
"""How many places that look like an object are tried. Each may be read to the end of the reply, so without
a limit a long reply of nested, broken objects would take its length squared."""
_LONGEST_REPAIR = 8_000
"""In characters. A verdict is a few hundred; the repair is slow on longer texts, and takes their length squared."""
_LABEL = re.compile(r"\A(?:the\s+)?(?:final\s+|search\s+|rewritten\s+|short\s+)?(?:answer|query)\s*:\s*", re.IGNORECASE)
_LABELS = [f"{the}{kind}answer:" for the in ("", "the ") for kind in ("", "final ", "search ", "rewritten ", "short ")]
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "`": "`", "«": "»"}
_OPENINGS = "".join(_QUOTES) + "<"


def read_json_object(text: str, repairs: Repairs) -> dict[str, Any]:
    """Read the one JSON object in a reply.

    A code fence or text around the object is ignored, and small damage (a trailing comma, wrong quotes) is repaired;
    each of these is counted once. Two objects are refused, and one that does not close: its last number may be cut.
    """
    plain = _strip_thinking(text)
    try:
        try:
            value, whole = json.loads(plain), True
        except json.JSONDecodeError:
            value, whole = _find_object(plain), False
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits and brackets nested by the thousand are not a verdict.
        raise ReplyError("The reply is not a JSON object.") from error
    if not isinstance(value, dict):
        raise ReplyError("The reply is not a JSON object.")
    if not whole:
        repairs["repaired"] += 1
    return value


def read_line(text: str) -> str:
    """Read the first line with words in it, without label, quotes or fence: how a query is read."""
    for line in _strip_fence(text).splitlines():
        cleaned = _strip_quotes(_LABEL.sub("", line.strip()))
        if re.search(r"\w", cleaned):
            return cleaned
    raise ReplyError("The reply holds no query.")


def read_answer(text: str) -> str:
    """Read the answer on one line, without label, quotes or fence."""
    answer = unescape(_strip_quotes(_LABEL.sub("", " ".join(_strip_fence(text).split()))))
    if not re.search(r"\w", answer):
        raise ReplyError("The reply holds no answer.")
    return answer


def read_partial_answer(text: str) -> str:
    """Return what may be shown of an answer that is still being written: what `read_answer` will not take away."""
    begun = " ".join(text.split())
    if begun[:1] in _OPENINGS or any(label.startswith(begun.lower()) for label in _LABELS):
        return ""
    return unescape(_LABEL.sub("", begun))


# Replies are untrusted: what reads them takes time in proportion to their length. A pattern with two repeats that can
# match the same text does not; searching for fixed texts does.


def _strip_fence(text: str) -> str:
    plain = _strip_thinking(text)
    opening = _FENCE_OPENS.match(plain)
    if opening is None or not plain.endswith("```") or len(plain) - 3 < opening.end():
        return plain
    return plain[opening.end() : -3].rstrip()


def _strip_thinking(text: str) -> str:
    said = text.lstrip()
    if said.startswith("<think>"):
        end = said.find("</think>")
        said = said[end + len("</think>") :].lstrip() if end >= 0 else said
    if said.startswith("<think>"):
        raise ReplyError("The reply is all thinking and no answer.")
    return said.rstrip()


def _find_object(text: str) -> Any:
    found = _find_whole_objects(text)
    if len(found) > 1:
        raise ReplyError("The reply holds more than one JSON object.")
    if found:
        return found[0]
    start, end = text.find("{"), text.rfind("}")
    return _repair(text[start : end + 1]) if 0 <= start < end else None


def _find_whole_objects(text: str) -> list[dict[str, Any]]:
    """Return the first two objects in a text that are valid JSON."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    broken = 0
    begins = _OBJECT_BEGINS.search(text)
    while begins and len(found) < 2:
        end = begins.end()
        try:
            value, end = decoder.raw_decode(text, begins.start())
            found.append(value)
        except json.JSONDecodeError:
            broken += 1
            if broken > _MOST_BROKEN_OBJECTS:
                raise ReplyError("The reply holds too many broken JSON objects.") from None
        begins = _OBJECT_BEGINS.search(text, end)
    return found


def _repair(text: str) -> Any:
    if len(text) > _LONGEST_REPAIR:
        raise ReplyError("The reply holds a long JSON object that is broken.")
    try:
        return json_repair.loads(text)
    except Exception as error:
        # It raises whatever it trips over (AssertionError, RecursionError, IndexError). That says nothing about us.
        raise ReplyError("The reply holds a JSON object that cannot be repaired.") from error


def _strip_quotes(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[-1] not in text[1:-1]:
        return text[1:-1].strip()
    return text
