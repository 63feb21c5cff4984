"""The judge: a model that decides whether an answer is right. Evaluation only, never in a method's cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from beliefrag.bench.metrics import accepted_answers, is_rightly_declined
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.engine.calls import CallRecorder, ModelCalls
from beliefrag.errors import BeliefRAGError, ReplyError
from beliefrag.methods import STATE_COLLECTORS
from beliefrag.models.compose import Meter
from beliefrag.models.protocol import ChatModel, ChatReply
from beliefrag.prompts import Prompts, Repairs, escape, read_answer
from beliefrag.record import Episode, Failure, Step, Verdict
from beliefrag.types import Usage
from beliefrag.verifiers import build_verifier

_SPELLINGS = 20
"""Accepted answers shown at most: some questions of TriviaQA have hundreds of spellings."""
_VERDICTS = {"yes": True, "correct": True, "no": False, "incorrect": False}


class Judge:
    """Judges answers with a model and a meter of its own."""

    def __init__(self, model: ChatModel, prompts: Prompts) -> None:
        self._model = model
        self._prompts = prompts

    @property
    def identity(self) -> str:
        """The identity of the model that judges."""
        return self._model.identity

    @staticmethod
    def is_due(episode: Episode, labelled: LabelledQuestion) -> bool:
        """Return whether an episode can be judged and has not been. An answer that is a set of rows has no verdict."""
        judged = episode.verdict is not None and episode.verdict.correct is not None
        return episode.finished and not labelled.gold.is_set and not judged

    async def judge_episode(self, episode: Episode, labelled: LabelledQuestion) -> Episode:
        """Return the episode with its verdict and what that cost, or with a verdict for every answer on trial.

        An abstention is judged without asking. If the judge fails, the episode keeps the cause in place of a verdict,
        and is judged again when the run continues.
        """
        meter = Meter(self._model)
        correct: bool | None = None
        error: Failure | None = None
        steps = episode.steps
        try:
            right = is_rightly_declined(episode.answer, labelled.gold)
            if episode.answer is not None:
                right = await self._ask(meter, episode.answer, labelled)
            if episode.key.method in STATE_COLLECTORS:
                verdicts = {} if episode.answer is None else {episode.answer: right}
                for answer in dict.fromkeys(step.attempt.answer for step in steps if step.attempt):
                    if answer not in verdicts:
                        verdicts[answer] = await self._ask(meter, answer, labelled)
                steps = tuple(_with_verdict(step, verdicts) for step in steps)
            correct = right
        except BeliefRAGError as failure:
            error = Failure(cause=type(failure).__name__, message=failure.message)
        used = meter.usage
        cost = Usage(calls=used.calls, tokens_in=used.tokens_in, tokens_out=used.tokens_out, retries=used.retries)
        return episode.model_copy(
            update={
                "metrics": {**episode.metrics, "judge": None if correct is None else float(correct)},
                "verdict": Verdict(correct=correct, usage=cost, error=error),
                "judge_seconds": round(used.seconds, 4),
                "steps": steps,
            }
        )

    async def _ask(self, meter: Meter, answer: str, labelled: LabelledQuestion) -> bool:
        recorder = CallRecorder(lambda _: None, lambda *_: None)
        calls = ModelCalls(meter, self._prompts, build_verifier("structured"), recorder)
        fields = {
            "question": escape(labelled.question.text),
            "golds": "; ".join(escape(gold) for gold in accepted_answers(labelled.gold)[:_SPELLINGS]),
            "prediction": escape(answer),
        }
        return await calls.ask("judge", "judge", fields, read_verdict)


def _with_verdict(step: Step, verdicts: Mapping[str, bool]) -> Step:
    if step.attempt is None:
        return step
    scores = {**step.attempt.scores, "judge": float(verdicts[step.attempt.answer])}
    return step.model_copy(update={"attempt": replace(step.attempt, scores=scores)})


def read_verdict(reply: ChatReply, repairs: Repairs) -> bool:
    """Return whether the judge replied yes."""
    words = re.findall(r"[a-z]+", read_answer(reply.text).lower())
    if not words or words[0] not in _VERDICTS:
        raise ReplyError("The reply is neither yes nor no.")
    return _VERDICTS[words[0]]
