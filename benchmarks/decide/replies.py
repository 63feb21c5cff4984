"""Writes the replies that the episodes of runs use, so that others can replay them: no prompts and no passages.

A run names no keys of replies, and a cache holds more than one run. So each episode is played again from the cache, and
the keys that it asks for are kept. The same replies give the same bytes: they are sorted by their keys, and carry no
time at which a cache stored them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.engine import loop
from beliefrag.errors import ReplayMiss, SettingsError
from beliefrag.models.cache import StoredReply, export_lines, reply_key, reply_to_json, seal_row
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, ModelLayer
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.record import Injection, RunRecord
from beliefrag.runs.run_files import read_summaries
from beliefrag.settings import Settings

__all__ = ["UsedReplies", "find_used_replies", "write_replies"]

_UNDATED = 0.0


@dataclass(frozen=True, slots=True)
class UsedReplies:
    """The replies that episodes used, by key, and the episodes of which one is missing."""

    replies: dict[str, StoredReply] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def find_used_replies(folders: Iterable[Path], data: Sequence[Path]) -> UsedReplies:
    """Play the episodes of runs again from the cache that BELIEFRAG_CACHE_DIR names, and keep the replies they use.

    Args:
        folders: The runs; also those that `beliefrag calibrate collect` made.
        data: Folders with the sets of the runs, looked through in this order.

    Raises:
        SettingsError: A set of a run is in none of the folders.
        RunChanged: A run was made with other data, prompts or settings.
    """
    used = UsedReplies()
    for folder in folders:
        asyncio.run(_play_again(folder, data, used))
    return used


def write_replies(replies: Mapping[str, StoredReply], file: Path) -> None:
    """Write the replies to a compressed file that `beliefrag cache import` and `replay` read."""
    lines = export_lines(replies[key] for key in sorted(replies))
    file.write_bytes(gzip.compress(b"".join(lines), mtime=0))


async def _play_again(folder: Path, data: Sequence[Path], used: UsedReplies) -> None:
    run = RunRecord.read(folder)
    spec = RunSpec(
        tuple(_find_set(name, data) for name in run.datasets),
        run.methods_with_options,
        seed=run.seed,
        judge=False,
        injection=run.injection or Injection(),
        replay=True,
    )
    missed: set[str] = set()
    settings = Settings.model_validate(run.settings)
    setup = set_up(settings, spec, run, wrap_model=lambda model: _Recording(model, used.replies, missed))
    try:
        resume_record(run, setup.record)
        for key, summary in sorted(read_summaries(folder).items()):
            missed.clear()
            await _play(setup, key.dataset, key.method, key.question_id)
            # A failed episode may have failed because no reply came.
            if summary.finished and missed:
                used.missing.append(f"{folder.name} {' '.join(map(str, key[:3]))}")
    finally:
        await setup.aclose()


async def _play(setup: Setup, dataset: str, method: str, question: str) -> None:
    course = setup.datasets[dataset]
    labelled = course.questions[question]
    stream = loop.run(labelled.question, course.methods[method], course.harness_for(method, labelled))
    async with contextlib.aclosing(stream):
        async for _ in stream:
            pass


def _find_set(name: str, data: Sequence[Path]) -> Path:
    for folder in data:
        if (folder / name).is_dir():
            return folder / name
    raise SettingsError(
        f"The set {name} is in none of {', '.join(map(str, data))}.", remedy="Name the folder it is in with --data."
    )


class _Recording(ModelLayer):
    """Keeps each reply that is asked for, and the keys of those that the cache does not hold."""

    def __init__(self, model: ChatModel, replies: dict[str, StoredReply], missed: set[str]) -> None:
        super().__init__(model)
        self._replies = replies
        self._missed = missed

    async def chat(self, request: ChatRequest) -> ChatReply:
        key = reply_key(self.identity, request)
        try:
            reply = await self._model.chat(request)
        except ReplayMiss:
            self._missed.add(key)
            raise
        row = (key.encode(), self.identity.encode(), _UNDATED, reply_to_json(reply).encode())
        self._replies[key] = StoredReply(key, self.identity, _UNDATED, reply, seal_row(*row))
        return reply
