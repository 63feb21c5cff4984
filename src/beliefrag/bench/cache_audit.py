"""Asks the live model again what the cache has recorded, and counts the replies that diverge.

At temperature 0 the same request should bring the same reply. Servers batch requests and change versions, so some do
not: the paper found 58 of 5,341. Some come back in the same words with other token probabilities, which the verifier,
FLARE and the uncertainty gate decide by: those are counted apart. The cache keeps keys, not requests; they come back by
replaying a run.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from beliefrag.bench.perturbation import Injection
from beliefrag.bench.questions import Dataset
from beliefrag.bench.setup import RunSpec, set_up
from beliefrag.engine import loop
from beliefrag.errors import ModelError, ReplayMiss
from beliefrag.models.protocol import ChatModel, ChatReply, ChatRequest, have_same_probabilities
from beliefrag.models.with_cache import reply_key
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_errors import RunChanged, RunError
from beliefrag.runs.run_files import read_summaries
from beliefrag.settings import Settings

__all__ = ["Audit", "audit_run"]


@dataclass(slots=True)
class Audit:
    """What the comparison came to, by purpose."""

    same: Counter[str] = field(default_factory=Counter)
    reweighed: Counter[str] = field(default_factory=Counter)
    """The same text with other token probabilities, where the request asked for them."""
    diverged: Counter[str] = field(default_factory=Counter)
    unasked: Counter[str] = field(default_factory=Counter)
    """The live model failed."""
    missing: int = 0
    """Replies of the run that the cache does not hold."""

    @property
    def compared(self) -> int:
        """How many keys were compared."""
        return self.same.total() + self.reweighed.total() + self.diverged.total()


async def audit_run(
    folder: Path,
    settings: Settings,
    data: tuple[Path, ...],
    live: ChatModel,
    *,
    own: tuple[Dataset, ...] = (),
    most: int | None = None,
    progress: Callable[[Audit], None] = lambda _: None,
) -> Audit:
    """Replays a run's finished episodes from the cache, and asks the live model each request once.

    Args:
        folder: The folder of the run.
        settings: The settings of the run.
        data: The folders of its datasets.
        live: The model, without a cache around it.
        own: Datasets of the run that were made of somebody's own questions and documents.
        most: Stop after so many keys.
        progress: Called after each episode.

    Raises:
        RunChanged: Data, prompts, settings or the live model are not those of the run.
        RunError: None of the run's episodes on these datasets has finished.
    """
    run = RunRecord.read(folder)
    if live.identity != run.model:
        raise RunChanged(
            f"The run was made with the model {run.model}, and would be audited against {live.identity}.",
            remedy="Name the model of the run.",
        )
    audit = Audit()
    injection = run.injection or Injection()
    wanted = RunSpec(
        data, run.methods_with_options, datasets=own, seed=run.seed, judge=False, injection=injection, replay=True
    )
    setup = set_up(settings, wanted, run, wrap_model=lambda cache: _Auditing(cache, live, audit, most))
    resume_record(run, setup.record)
    finished = [key for key, episode in sorted(read_summaries(folder).items()) if episode.finished]
    try:
        if not any(key.dataset in setup.datasets for key in finished):
            raise RunError(
                f"{folder} has no finished episode of {', '.join(setup.datasets)}.", remedy="Finish the run first."
            )
        for key in finished:
            if most is not None and audit.compared + audit.unasked.total() >= most:
                break
            course = setup.datasets.get(key.dataset)
            if course is None:
                continue
            labelled = course.questions[key.question_id]
            stream = loop.run(labelled.question, course.methods[key.method], course.harness_for(key.method, labelled))
            async with contextlib.aclosing(stream):
                async for _ in stream:
                    pass
            progress(audit)
    finally:
        await setup.aclose()
        await live.aclose()
    return audit


class _Auditing:
    """Gives the recorded reply, and compares it with a new one the first time it is asked for."""

    def __init__(self, cache: ChatModel, live: ChatModel, audit: Audit, most: int | None) -> None:
        self._cache = cache
        self._live = live
        self._audit = audit
        self._most = most
        self._seen: set[str] = set()
        self._missing: set[str] = set()

    @property
    def identity(self) -> str:
        return self._cache.identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        key = reply_key(self.identity, request)
        try:
            recorded = await self._cache.chat(request)
        except ReplayMiss:
            self._missing.add(key)
            self._audit.missing = len(self._missing)
            raise
        if key not in self._seen and (self._most is None or len(self._seen) < self._most):
            self._seen.add(key)
            try:
                again = await self._live.chat(request)
            except ModelError:
                self._audit.unasked[request.purpose] += 1
            else:
                self._count(recorded, again)[request.purpose] += 1
        return recorded

    def _count(self, recorded: ChatReply, again: ChatReply) -> Counter[str]:
        if again.text != recorded.text:
            return self._audit.diverged
        return self._audit.same if have_same_probabilities(recorded, again) else self._audit.reweighed

    async def aclose(self) -> None:
        await self._cache.aclose()
