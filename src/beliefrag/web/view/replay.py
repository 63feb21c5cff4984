"""Rebuilds the prompts of a run's episode by running it again from the reply cache.

A run keeps replies and no prompts, because prompts would repeat the benchmark's text many times. With the dataset and
the replies the episode can be run again without a model. Its prompts are shown if every step and every reply came out
as recorded.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from beliefrag.bench.metrics import score_episode
from beliefrag.bench.questions import Dataset
from beliefrag.bench.setup import RunSpec, Setup, set_up
from beliefrag.engine import loop
from beliefrag.errors import BeliefRAGError
from beliefrag.record import Episode, Step, to_json_line
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.record import Injection, RunRecord
from beliefrag.settings import Settings
from beliefrag.web.view.schema import NotAvailable, PromptsView, view_prompts

_NO_PROMPTS = "The prompts are not in the run, and"


class PromptReplayer:
    """Runs episodes of one run again. What a dataset needs is opened at its first episode, and kept."""

    def __init__(self, run: RunRecord) -> None:
        self._run = run
        self._setups: dict[str, Setup] = {}
        # One at a time, and in a thread without an event loop, because the caller may have one.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="replay")

    def prompts(self, episode: Episode, dataset: Dataset) -> PromptsView:
        """Return the prompts of a recorded episode on a question of this dataset, or raise `NotAvailable`."""
        return self._thread.submit(self._rebuild, episode, dataset).result()

    def close(self) -> None:
        """Close the cache."""
        for setup in self._setups.values():
            self._thread.submit(asyncio.run, setup.aclose()).result()
        self._thread.shutdown()

    def _rebuild(self, episode: Episode, dataset: Dataset) -> PromptsView:
        key = episode.key
        if dataset.name not in self._setups:
            self._setups[dataset.name] = self._open(dataset)
        setup = self._setups[dataset.name].datasets[dataset.name]
        labelled = setup.questions.get(key.question_id)
        if labelled is None or key.method not in setup.methods:
            raise NotAvailable("The dataset here does not hold the question of this episode.")
        harness = setup.harness_for(key.method, labelled)
        try:
            played = asyncio.run(loop.play(labelled.question, setup.methods[key.method], harness))
        except BeliefRAGError as error:
            raise NotAvailable(f"The episode cannot be run again: {error.message}", remedy=error.remedy) from error
        if played.error is not None and played.outcome != episode.outcome:
            raise NotAvailable(
                f"{_NO_PROMPTS} the replies to rebuild them are not in the cache: {played.message}",
                remedy="View it with the BELIEFRAG_CACHE_DIR that the run was made with.",
            )
        if _course(score_episode(played, labelled, key)) != _course(episode):
            raise NotAvailable(f"{_NO_PROMPTS} running the episode again went another way.")
        return view_prompts(played, "rebuilt from the reply cache: every step and every reply is as recorded")

    def _open(self, dataset: Dataset) -> Setup:
        try:
            spec = RunSpec(
                methods=self._run.methods_with_options,
                datasets=(dataset,),
                seed=self._run.seed,
                judge=False,
                replay=True,
                injection=self._run.injection or Injection(),
            )
            setup = set_up(Settings.model_validate(dict(self._run.settings)), spec, self._run)
            resume_record(self._run, setup.record)
        except ValidationError:
            why = "its settings are those of another version."
            raise NotAvailable(f"{_NO_PROMPTS} cannot be rebuilt here: {why}") from None
        except BeliefRAGError as error:
            raise NotAvailable(f"{_NO_PROMPTS} cannot be rebuilt here: {error.message}", remedy=error.remedy) from error
        return setup


def _course(episode: Episode) -> str:
    """Return what must be the same in both: everything that does not depend on the clock or on the judge."""
    plain = episode.without_timing()
    unjudged: dict[str, Any] = {
        "steps": tuple(map(_without_verdict, plain.steps)),
        "metrics": {},
        "verdict": None,
        "injected": None,
    }
    # As text, because what a file holds has no half of a surrogate pair.
    return to_json_line(plain.model_copy(update=unjudged))


def _without_verdict(step: Step) -> Step:
    if step.attempt is None:
        return step
    scores = {name: score for name, score in step.attempt.scores.items() if name != "judge"}
    return step.model_copy(update={"attempt": replace(step.attempt, scores=scores)})
