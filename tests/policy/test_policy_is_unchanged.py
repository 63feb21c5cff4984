"""With the defaults of all settings every decision is the one that was made before the settings existed."""

from __future__ import annotations

import hashlib
import random
import re
from pathlib import Path

from beliefrag.policy import Situation, Thresholds, decide
from beliefrag.types import Action, Belief
from tests.support.episodes import PlannedRetriever, hits, play, published_method, script, verdict
from tests.support.reading import says

DECISIONS = "a553264f4ea23dc4521a5e15b116ba3a"
"""Worked out with the code as it was before `correction_prunes` and `correction_replaces`."""
REQUESTS = "78af61067d9dfb091cc3d48fe0901bf6"
"""Worked out with the code that first corrected a query in one call (`merge_rewriter`)."""
_LATER_FIELDS = re.compile(r", reads_evidence=\w+, shown=None")
"""Fields of a decision that came later, and do not change what is decided."""


def situations() -> list[Situation]:
    draw = random.Random(7)
    found = []
    for _ in range(4000):
        legal = tuple(a for a in Action if a in (Action.ANSWER, Action.STOP, Action.ABSTAIN) or draw.random() < 0.7)
        found.append(
            Situation(
                belief=Belief(*(round(draw.random(), 2) for _ in range(6))),
                answerability=round(draw.random(), 2),
                retrieval_value=round(draw.random() * 0.3, 2),
                novelty=round(draw.random() * 0.5, 2),
                rounds=draw.randrange(4),
                flagged=draw.choice([0, 0, 1, 2]),
                actions=tuple(draw.choices([Action.RETRIEVE, Action.VERIFY, Action.REWRITE], k=draw.randrange(4))),
                legal=legal,
                correction_fits=draw.random() < 0.5,
                nothing_missing=draw.random() < 0.1,
                retained=draw.randrange(3),
            )
        )
    return found


def test_every_decision_is_the_one_that_was_made_before() -> None:
    made = "\n".join(_LATER_FIELDS.sub("", str(decide(situation, Thresholds()))) for situation in situations())
    assert hashlib.sha256(made.encode()).hexdigest()[:32] == DECISIONS


async def test_a_corrected_episode_asks_the_model_what_it_asked_before(tmp_path: Path) -> None:
    weak, good = verdict(0.3, 0.7, 0.5, unhelpful=[2]), verdict(0.95, 0.05, 0.05)
    lines = (weak, good, says("rewriter", "other words"), says("answer", "x"))
    searches = PlannedRetriever(hits("a", "b", "c"), hits("d", "b", "e"))
    result = await play(script(tmp_path, *lines), searches, method=published_method())
    asked = [str((e.purpose, e.messages)) for e in result.calls]
    assert hashlib.sha256("\n".join([*asked, *searches.queries]).encode()).hexdigest()[:32] == REQUESTS
