"""Which request fields a server takes for a model: learned from what it rejects, once, and kept between runs."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import ModelError
from beliefrag.file_lock import hold_lock
from beliefrag.settings import cache_dir

_FORMATS = ("json_schema", "json_object", "none")
_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output", "grammar")
_LIMITS = (16_384, 4_096, 1_024)
_LIMIT_WORDS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "in the completion", "output tokens")
_WORDS = {
    "format": "a JSON schema",
    "logprobs": "token probabilities",
    "temperature": "temperature 0",
    "limit": "max_tokens (it is sent max_completion_tokens)",
    "longest": "longer replies",
    "stop": "stop texts",
    "stream": "streaming",
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a server takes. It starts with all fields and loses those that the server rejects, one way only."""

    format: Literal["json_schema", "json_object", "none"] = "json_schema"
    logprobs: bool = True
    temperature: bool = True
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The name of the field for the token limit."""
    longest: int = _LIMITS[0]
    """The largest token limit."""
    stop: bool = True
    stream: bool = True
    thinks: bool = False
    """Whether the model thinks before it answers so that its token limit counts thoughts."""
    hides_thinking: bool = False
    """Whether its thinking has an end tag and no start tag so that it looks like the answer until it ends."""
    accepted: frozenset[str] = frozenset()
    """The fields that a reply has shown to be accepted."""

    def merge(self, other: Capabilities) -> Capabilities:
        """Return what both know. Calls that began earlier cannot undo what was learned since."""
        later = {each.name for each in fields(self) if _loss(each.name, other) > _loss(each.name, self)}
        lost = {name: getattr(other, name) for name in later}
        return replace(self, **lost, accepted=self.accepted | other.accepted)

    def without_rejected(self, status: int, complaint: str, sent: Mapping[str, Any]) -> Capabilities | None:
        """Return what is known after a complaint in lower case; None if nothing that was sent can be left out."""
        if status not in (400, 422):
            return None
        changed: dict[str, Any] = {}
        if any(word in complaint for word in _LIMIT_WORDS) and self.limit in sent:
            if self.limit == "max_tokens" and "max_completion_tokens" in complaint and "too large" not in complaint:
                return replace(self, limit="max_completion_tokens")
            shorter = [limit for limit in _LIMITS if limit < sent[self.limit]]
            return replace(self, longest=shorter[0]) if shorter else None
        if "logprobs" in sent and "logprob" in complaint:
            changed = {"logprobs": False}
        elif "temperature" in sent and "temperature" in complaint:
            changed = {"temperature": False}
        elif sent["stream"] and re.search(r"\bstream", complaint):
            changed = {"stream": False}
        elif "stop" in sent and re.search(r"\bstop\b", complaint):
            changed = {"stop": False}
        elif "response_format" in sent and (status == 422 or any(word in complaint for word in _FORMAT_WORDS)):
            changed = {"format": _FORMATS[_FORMATS.index(self.format) + 1]}
        return replace(self, **changed) if changed else None

    def describe_losses(self, since: Capabilities | None = None) -> str:
        """Return in words what the server does not take, or what it turned out not to take since then."""
        known = since or Capabilities()
        lost = [name for name in _WORDS if _loss(name, self) > _loss(name, known)]
        return ", ".join("JSON replies" if (name, self.format) == ("format", "none") else _WORDS[name] for name in lost)


def _loss(name: str, of: Capabilities) -> int:
    value = getattr(of, name)
    if name == "format":
        return _FORMATS.index(value)
    if name == "longest":
        return -int(value)
    return int(name != "accepted" and value != getattr(_ALL, name))


_ALL = Capabilities()
_LEARNED = TypeAdapter(dict[str, Capabilities])


def learned_path() -> Path:
    """Return the file of what was learned on this machine. It holds no key and no address with one."""
    return cache_dir() / "servers.json"


def read_learned(path: Path) -> dict[str, Capabilities]:
    """Return what was learned, by identity of the model; nothing if the file is missing or damaged."""
    try:
        return _LEARNED.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}


def keep_learned(path: Path, identity: str, learned: Capabilities | None) -> None:
    """Add what was learned to the file, or with None forget the model. A file that cannot be written is logged."""
    try:
        with hold_lock(path.with_name(f"{path.name}.lock")):
            known = read_learned(path)
            if learned is None:
                known.pop(identity, None)
            else:
                known[identity] = known.get(identity, _ALL).merge(learned)
            rows = {
                name: {key: value for key, value in asdict(each).items() if value != getattr(_ALL, key)}
                for name, each in sorted(known.items())
            }
            new = path.with_name(f"{path.name}.new")
            new.write_text(json.dumps(rows, indent=1, default=sorted), encoding="utf-8")
            new.replace(path)
    except (OSError, ModelError) as error:
        _log.debug("%s cannot be written: %s", path, error)
