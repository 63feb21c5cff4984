"""Opens the store of replies that the setting `cache` names: a file of this machine, or a PostgreSQL database."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from beliefrag.models.postgres_replies import PostgresReplyStore, StoreFailure, is_database_address
from beliefrag.models.reply_store import ReplyStore
from beliefrag.paths import cache_dir

__all__ = ["STORE_FAILURES", "AnyReplyStore", "StorePlace", "open_reply_store", "reply_store_place"]

AnyReplyStore = ReplyStore | PostgresReplyStore
StorePlace = Path | str
"""A file, or the address of a database."""

STORE_FAILURES = (sqlite3.Error, StoreFailure)
"""What reading and writing a store may raise when the disk, the network or the server refuses."""


def reply_store_place(cache: bool | str) -> StorePlace:
    """Gives the place of the store that a value of the setting `cache` names; the usual file for true and false."""
    return cache if isinstance(cache, str) else cache_dir() / "replies.sqlite"


def open_reply_store(place: StorePlace, *, read_only: bool = False) -> AnyReplyStore:
    """Opens a store, which is made where there is none.

    Args:
        place: A file, or the address of a database.
        read_only: Never write, and fail if there is no store.

    Raises:
        SettingsError: It cannot be opened, or is something else.
    """
    if isinstance(place, str) and is_database_address(place):
        return PostgresReplyStore(place, read_only=read_only)
    return ReplyStore(place, read_only=read_only)
