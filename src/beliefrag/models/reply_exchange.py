"""Carries replies from one cache to another as JSON Lines, so that a run can be replayed on another machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import SettingsError
from beliefrag.models.reply_store import ReplyStore, StoredReply

__all__ = ["Imported", "export_lines", "import_lines"]

_FORM = TypeAdapter(StoredReply)
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to."""

    added: int
    known: int
    """Already there, with the same text."""
    different: int
    """Already there with another text; the one that was there stays."""


def export_lines(store: ReplyStore, *, model: str | None = None) -> Iterator[bytes]:
    """All replies, oldest first, one line each.

    Args:
        store: Where they are.
        model: Only those of the model with this identity.
    """
    for stored in store:
        if model is None or stored.model == model:
            yield _FORM.dump_json(stored) + b"\n"


def import_lines(lines: Iterable[bytes], store: ReplyStore) -> Imported:
    """Puts replies into a store. All lines are read first: a damaged file changes nothing.

    Raises:
        SettingsError: A line is no reply.
    """
    replies = [_read(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    added = known = different = 0
    for stored in replies:
        before = store.get(stored.key)
        if before is not None:
            known += before.text == stored.reply.text
            different += before.text != stored.reply.text
            continue
        store.put(stored.key, stored.model, replace(stored.reply, cached=False))
        added += 1
    return Imported(added, known, different)


def _read(line: bytes, number: int) -> StoredReply:
    try:
        stored = _FORM.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise SettingsError(
            f"Line {number} is no reply: {problem}.", remedy="Give a file made with 'beliefrag cache export'."
        ) from None
    if not _KEY.fullmatch(stored.key):
        raise SettingsError(f"Line {number} has no key of ours.", remedy="Export the cache again.")
    return stored
