"""The judge: a model that says whether an answer is right (SPEC 6). Evaluation only, never in a method's cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from beliefrag import events
from beliefrag.bench.metrics import accepted
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.engine.model_calls import CallRecorder, ModelCalls
from beliefrag.engine.replies import Repairs, bare_answer
from beliefrag.errors import BeliefRAGError, ReplyError
from beliefrag.methods import STATE_COLLECTORS
from beliefrag.models.meter import Meter
from beliefrag.models.protocol import ChatModel, ChatReply
from beliefrag.prompts import Prompts, escape
from beliefrag.verifiers import verifier_form

__all__ = ["Judge", "read_verdict"]

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
        """The model's."""
        return self._model.identity

    @staticmethod
    def is_due(record: Mapping[str, Any], labelled: LabelledQuestion) -> bool:
        """Whether an episode can be judged and has not been. An answer that is a set of rows has no verdict."""
        judged = record["judge"] is not None and record["judge"]["correct"] is not None
        return record["outcome"] != "failed" and not labelled.gold.is_set and not judged

    async def judged(self, record: Mapping[str, Any], labelled: LabelledQuestion) -> dict[str, Any]:
        """The record with the verdict and what it cost; of a survey, with one for every answer on trial.

        An abstention is not right, and nobody needs to be asked. If the judge fails, the episode stands with the
        cause in place of a verdict, and is judged again when the run goes on.
        """
        meter = Meter(self._model)
        correct: bool | None
        error: dict[str, str] | None = None
        steps = record["steps"]
        try:
            right = record["answer"] is not None and await self._ask(meter, record["answer"], labelled)
            if record["method"] in STATE_COLLECTORS:
                steps = await self._tried(meter, steps, labelled, {record["answer"]: float(right)})
            correct = right
        except BeliefRAGError as failure:
            correct, error = None, {"cause": type(failure).__name__, "message": failure.message}
        usage = events.usage_record(meter.usage)
        cost = {name: usage[name] for name in ("calls", "tokens", "tokens_in", "tokens_out", "retries")}
        verdict: dict[str, Any] = {"correct": correct, "usage": cost}
        if error:
            verdict["error"] = error
        metrics = {**record["metrics"], "judge": None if correct is None else float(correct)}
        timing = {**record["timing"], "judge_seconds": round(meter.usage.seconds, 4)}
        return {**record, "metrics": metrics, "judge": verdict, "timing": timing, "steps": steps}

    async def _tried(
        self, meter: Meter, steps: Sequence[Mapping[str, Any]], labelled: LabelledQuestion, known: dict[str, float]
    ) -> list[Mapping[str, Any]]:
        """The steps with a verdict for each answer on trial; one that is known is not asked for again."""
        verdicts = dict(known)
        for answer in dict.fromkeys(step["attempt"]["answer"] for step in steps if step["attempt"]):
            if answer not in verdicts:
                verdicts[answer] = float(await self._ask(meter, answer, labelled))
        return [
            {**step, "attempt": {**step["attempt"], "judge": verdicts[step["attempt"]["answer"]]}}
            if step["attempt"]
            else step
            for step in steps
        ]

    async def _ask(self, meter: Meter, answer: str, labelled: LabelledQuestion) -> bool:
        recorder = CallRecorder(lambda _: None, lambda *_: None)
        calls = ModelCalls(meter, self._prompts, verifier_form("structured"), recorder)
        fields = {
            "question": escape(labelled.question.text),
            "golds": "; ".join(escape(gold) for gold in accepted(labelled.gold)[:_SPELLINGS]),
            "prediction": escape(answer),
        }
        return await calls.ask("judge", "judge", fields, read_verdict)


def read_verdict(reply: ChatReply, repairs: Repairs) -> bool:
    """Whether the judge said yes.

    Raises:
        ReplyError: It said neither yes nor no.
    """
    words = re.findall(r"[a-z]+", bare_answer(reply.text).lower())
    if not words or words[0] not in _VERDICTS:
        raise ReplyError("The reply is neither yes nor no.")
    return _VERDICTS[words[0]]
