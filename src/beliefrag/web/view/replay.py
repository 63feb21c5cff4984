"""Rebuilds the prompts of a run's episode by running it again from the reply cache.

A run keeps replies and no prompts, because prompts would repeat the benchmark's text many times. With the dataset and
the replies the episode can be run again without a model. Its prompts are shown if every step and every reply came out
as recorded.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

from pydantic import ValidationError

from beliefrag import events
from beliefrag.bench.metrics import score_episode
from beliefrag.bench.perturbation import Injection
from beliefrag.bench.questions import Dataset, LabelledQuestion
from beliefrag.bench.setup import DatasetSetup, RunSpec, Setup, set_up
from beliefrag.engine import loop
from beliefrag.errors import BeliefRAGError
from beliefrag.record import Episode, EpisodeKey
from beliefrag.result import Result
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.episode_format import episode_record, read_episode
from beliefrag.runs.record import RunRecord
from beliefrag.settings import Settings
from beliefrag.web.view.sanitise import replace_lone_surrogates
from beliefrag.web.view.schema import MessageView, NotAvailable, PromptsView

__all__ = ["PromptReplayer"]


class PromptReplayer:
    """Runs episodes of one run again. What a dataset needs is opened at its first episode, and kept."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._setups: dict[str, Setup | NotAvailable] = {}
        # One at a time, and in a thread without an event loop, because the caller may have one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replay")

    def prompts(self, episode: Episode, dataset: Dataset) -> PromptsView:
        """Return the prompts of an episode.

        Args:
            episode: The recorded episode.
            dataset: The dataset that its question is from.

        Raises:
            NotAvailable: They cannot be rebuilt here; the message says why.
        """
        return self._thread.submit(self._rebuild, episode, dataset).result()

    def close(self) -> None:
        """Close the cache."""
        self._thread.submit(self._close_setups).result()
        self._thread.shutdown()

    def _rebuild(self, episode: Episode, dataset: Dataset) -> PromptsView:
        key = episode.key
        setup = self._dataset_setup(dataset)
        labelled = setup.questions.get(key.question_id)
        if labelled is None or key.method not in setup.methods:
            raise NotAvailable("The dataset here does not hold the question of this episode.")
        try:
            seen = asyncio.run(_run_episode(setup, key.method, labelled))
        except BeliefRAGError as error:
            raise NotAvailable(f"The episode cannot be run again: {error.message}", remedy=error.remedy) from error
        replayed = _as_recorded(seen, labelled, key)
        if replayed.outcome != episode.outcome and replayed.error is not None:
            raise NotAvailable(
                "The prompts are not in the run, and the replies to rebuild them are not in the cache: "
                f"{replayed.error.message}",
                remedy="View it with the BELIEFRAG_CACHE_DIR that the run was made with.",
            )
        if _course(replayed) != _course(episode):
            raise NotAvailable("The prompts are not in the run, and running the episode again went another way.")
        calls = (event for event in seen if isinstance(event, events.CallFinished))
        return PromptsView(
            calls=tuple(
                tuple(MessageView(**replace_lone_surrogates(dict(message))) for message in call.messages)
                for call in calls
            ),
            source="rebuilt from the reply cache: every step and every reply came out as recorded",
        )

    def _close_setups(self) -> None:
        for setup in self._setups.values():
            if isinstance(setup, Setup):
                asyncio.run(setup.aclose())
        self._setups.clear()

    def _dataset_setup(self, dataset: Dataset) -> DatasetSetup:
        name = dataset.name
        if name not in self._setups:
            try:
                self._setups[name] = self._open(dataset)
            except NotAvailable as error:
                self._setups[name] = error
        setup = self._setups[name]
        if isinstance(setup, NotAvailable):
            raise setup
        return setup.datasets[name]

    def _open(self, dataset: Dataset) -> Setup:
        problem = "The prompts are not in the run, and cannot be rebuilt here"
        try:
            settings = Settings.model_validate(dict(self._run.settings))
            spec = RunSpec(
                methods=self._run.methods_with_options,
                datasets=(dataset,),
                seed=self._run.seed,
                judge=False,
                replay=True,
                injection=self._run.injection or Injection(),
            )
            setup = set_up(settings, spec, self._run)
            resume_record(self._run, setup.record)
        except ValidationError:
            raise NotAvailable(f"{problem}: its settings are those of another version.") from None
        except BeliefRAGError as error:
            raise NotAvailable(f"{problem}: {error.message}", remedy=error.remedy) from error
        return setup


def _as_recorded(seen: list[events.Event], labelled: LabelledQuestion, key: EpisodeKey) -> Episode:
    """Return the episode as it would be read from a run's file, so that it can be compared with a recorded one."""
    record = episode_record(score_episode(Result.from_events(seen), labelled, key))
    return read_episode(replace_lone_surrogates(json.loads(json.dumps(record))))


def _course(episode: Episode) -> tuple[object, ...]:
    """Return what must be the same in both: everything that does not depend on the clock or on the judge."""
    return episode.outcome, episode.answer, episode.steps, episode.calls


async def _run_episode(setup: DatasetSetup, method: str, labelled: LabelledQuestion) -> list[events.Event]:
    stream = loop.run(labelled.question, setup.methods[method], setup.harness_for(method, labelled))
    async with aclosing(stream):
        return [event async for event in stream]
