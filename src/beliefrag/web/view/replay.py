"""The prompts of a run's episode, by playing it again from the reply cache.

A run keeps replies and no prompts: they would be the benchmark's text over and over. With the dataset and the replies
at hand the episode can be played again without a model, and its prompts are shown if every step and every reply came
out as recorded.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beliefrag import events
from beliefrag.bench.perturbation import Injection
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.bench.scoring import score_episode
from beliefrag.bench.setup import DatasetSetup, RunSpec, Setup, set_up
from beliefrag.engine import loop
from beliefrag.errors import BeliefRAGError
from beliefrag.result import Result
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.episode import EpisodeKey
from beliefrag.runs.episode_format import episode_record
from beliefrag.runs.record import RunRecord
from beliefrag.settings import Settings
from beliefrag.web.view.errors import NotHere
from beliefrag.web.view.lines import mended
from beliefrag.web.view.schema import MessageView, PromptsView

__all__ = ["Replayer"]

_SAME = ("outcome", "answer", "steps", "calls")


class Replayer:
    """Plays episodes of one run again. What a dataset needs is opened at its first episode, and kept."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._setups: dict[str, Setup | NotHere] = {}
        # One at a time, and in a thread without an event loop: whoever asks may have one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="play-again")

    def prompts(self, record: Mapping[str, Any], folder: Path) -> PromptsView:
        """The prompts of the episode with this line.

        Args:
            record: The line.
            folder: The dataset that it was asked on, recognised.

        Raises:
            NotHere: They cannot be had here; the message says why.
        """
        return self._thread.submit(self._prompts, record, folder).result()

    def close(self) -> None:
        """Lets go of the cache."""
        self._thread.submit(self._let_go).result()
        self._thread.shutdown()

    def _prompts(self, record: Mapping[str, Any], folder: Path) -> PromptsView:
        course = self._course(record["dataset"], folder)
        labelled = course.questions.get(record["question_id"])
        if labelled is None or record["method"] not in course.methods:
            raise NotHere("The dataset here does not hold the question of this episode.")
        try:
            seen = asyncio.run(_played(course, record["method"], labelled))
        except BeliefRAGError as error:
            raise NotHere(f"The episode cannot be played again: {error.message}", remedy=error.remedy) from error
        key = EpisodeKey(record["dataset"], record["method"], record["question_id"], record["seed"])
        played = episode_record(score_episode(Result.of(seen), labelled, key))
        again = mended(json.loads(json.dumps(played)))
        if missed := (again.get("error") or {}).get("message", "") if again["outcome"] != record["outcome"] else "":
            raise NotHere(
                f"The prompts are not in the run, and the replies to make them again are not in the cache: {missed}",
                remedy="View it with the BELIEFRAG_CACHE_DIR that the run was made with.",
            )
        if any(again[name] != record[name] for name in _SAME):
            raise NotHere("The prompts are not in the run, and playing the episode again took another way.")
        calls = (event for event in seen if isinstance(event, events.CallFinished))
        return PromptsView(
            calls=tuple(
                tuple(MessageView.model_validate(mended(dict(message))) for message in call.messages) for call in calls
            ),
            source="made again from the reply cache: every step and every reply came out as recorded",
        )

    def _let_go(self) -> None:
        for setup in self._setups.values():
            if isinstance(setup, Setup):
                asyncio.run(setup.aclose())
        self._setups.clear()

    def _course(self, dataset: str, folder: Path) -> DatasetSetup:
        if dataset not in self._setups:
            try:
                self._setups[dataset] = self._open(folder)
            except NotHere as error:
                self._setups[dataset] = error
        setup = self._setups[dataset]
        if isinstance(setup, NotHere):
            raise setup
        return setup.courses[dataset]

    def _open(self, folder: Path) -> Setup:
        why = "The prompts are not in the run, and cannot be made again here"
        try:
            settings = Settings.model_validate(dict(self._run.settings))
            wanted = RunSpec(
                (folder,),
                self._run.methods,
                seed=self._run.seed,
                judge=False,
                replay=True,
                injection=self._run.injection or Injection(),
            )
            setup = set_up(settings, wanted, self._run)
            resume_record(self._run, setup.record)
        except ValidationError:
            raise NotHere(f"{why}: its settings are those of another version.") from None
        except BeliefRAGError as error:
            raise NotHere(f"{why}: {error.message}", remedy=error.remedy) from error
        return setup


async def _played(course: DatasetSetup, method: str, labelled: LabelledQuestion) -> list[events.Event]:
    stream = loop.run(labelled.question, course.methods[method], course.harness_for(labelled))
    async with aclosing(stream):
        return [event async for event in stream]
