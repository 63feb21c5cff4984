"""Send texts that no model should write to all readers of model replies, and count what they do with them.

    python -m benchmarks.fuzz_replies [--n 1000000] [--seed 0] [--out FILE]

A reader may give a value, or refuse the reply with one of our own errors. Anything else (an AssertionError of a
library, a RecursionError, a value that is not finite) is a fault, and is reported with the text that caused it. The
texts are made of the pieces that the readers look for: tags, fences, brackets, quotes, labels, numbers, white space;
some are valid replies that were damaged. Equal seeds give equal texts.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from beliefrag.bench.judge import read_verdict
from beliefrag.bench.made_questions import QuestionSeed, find_fault, read_made_question
from beliefrag.engine.calls import _SAYS_SUFFICIENT
from beliefrag.errors import BeliefRAGError
from beliefrag.methods import adaptive_rag, crag, flare, reasoning, rl_search, self_rag, uncertainty_gate
from beliefrag.models.cache import read_reply_json
from beliefrag.models.failures import one_line, read_retry_after
from beliefrag.models.openai_reply import read_reply
from beliefrag.models.protocol import ChatReply, ChatRequest, Message, TokenProbability
from beliefrag.prompts import Repairs, escape, read_answer, read_json_object, read_line
from beliefrag.types import Passage
from beliefrag.verifiers import VERIFIERS, build_verifier, judge_alike, probability, slots

VERDICT = '{"unhelpful_doc_ids": [1], "support": 0.5, "conflict": 0.0, "gap": 0.25, "uncertainty": 1}'
COMPLETION = (
    '{"choices": [{"message": {"content": "<think>hm</think>Paris"}, "finish_reason": "stop", "logprobs": {"content": '
    '[{"token": "Paris", "logprob": -0.1, "bytes": [80], "top_logprobs": [{"token": "yes", "logprob": -0.1}]}]}}], '
    '"usage": {"prompt_tokens": 3, "completion_tokens": 1}}'
)
FORM = '{"1": "yes", "2": "no", "proved": "yes", "complete": "no", "agree": "yes"}'
MADE = '{"question": "Which city is the capital of France now?", "answer": "Paris"}'
STORED = '{"text": "Paris", "tokens_in": 3, "tokens_out": 1, "seconds": 0.1, "tokens": [["Paris", -0.1, [["x", -3]]]]}'
VALID = (
    VERDICT,
    VERDICT.replace('"', "'"),
    '{"```json```1}',
    f"```json\n{VERDICT}\n```",
    f"<think>maybe</think>\n{VERDICT}",
    COMPLETION,
    STORED,
    FORM,
    MADE,
    '{"grades": [0.9, 0.1]}',
    '{"missing": "nothing", "answer": "Paris", "sure": 9}',
    "France has one capital. Answer: Paris",
    "SUFFICIENT",
    "<think>I need it.</think> <search>Ringo Starr band</search>",
    "<answer>Paris</answer>",
    "The final answer: Paris.",
    "So the answer is: Paris. Dr. Who said so.",
    "Class B",
    "yes",
)
PIECES = (
    *("<think>", "</think>", "<THINK>", "<search>", "</search>", "<answer>", "</answer>", "<information>", "<", ">"),
    *(
        "```",
        "```json\n",
        "\n```",
        "`",
        "{",
        "}",
        "[",
        "]",
        '{"',
        '":',
        '"',
        "'",
        ":",
        ",",
        "\\",
        '\\"',
        "\\u00",
        "\\ud800",
    ),
    *(
        "support",
        "gap",
        "choices",
        "message",
        "content",
        "text",
        "logprob",
        "true",
        "null",
        "NaN",
        "Infinity",
        "-",
        "1e999",
    ),
    *(
        "0",
        "1",
        "0.5",
        "9" * 50,
        "The ",
        "final ",
        "answer",
        " is ",
        "query",
        ": ",
        "yes",
        "No.",
        "A",
        "class C",
        "Dr. ",
    ),
    *(
        " ",
        "\n",
        "\t",
        "\r",
        "\0",
        "\x1b",
        "\u2028",
        "\u3164",
        "\u200b",
        "\ud83d",
        "é",
        "答案",
        "。",
        "“",
        "”",
        "‹",
        "›",
        "//",
        "#",
    ),
)


def make_texts(count: int, seed: int) -> Iterator[str]:
    """Yield texts that a broken or hostile model could reply with; the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(count):
        kind = rng.random()
        if kind < 0.45:
            yield "".join(rng.choices(PIECES, k=rng.randint(0, 14)))
        elif kind < 0.85:
            yield _damage(rng.choice(VALID), rng)
        elif kind < 0.95:
            yield rng.choice(PIECES) * rng.randint(2, 60) + rng.choice(VALID)[: rng.randint(0, 40)]
        else:
            yield "".join(
                chr(rng.choice((rng.randrange(128), rng.randrange(0x3000)))) for _ in range(rng.randint(0, 30))
            )


def _damage(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randint(0, len(text))
        upto = min(len(text), at + rng.choice((0, 0, 1, 1, 4, 20)))
        text = text[:at] + rng.choice(("", "", " ", "\n", rng.choice(PIECES))) + text[upto:]
    return text


PASSAGES = (
    Passage("a", "France", "France is a country. Paris is its capital."),
    Passage("b", "Paris", "Paris lies on the Seine."),
)


@lru_cache(maxsize=8)
def _reply(text: str) -> ChatReply:
    # Numbers of the text stand in for probabilities, so that odd ones occur.
    odd = (-0.5, 0.0, 1e9, -math.inf, math.inf, math.nan)[len(text) % 6]
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)] or [""]
    tokens = tuple(TokenProbability(piece, odd, (("yes", odd), (piece, -1.0), ("no", -2.0))) for piece in pieces)
    return ChatReply(text, 1, 1, 0.0, tokens=tokens)


def _of_reply(read: Callable[[ChatReply, Repairs], Any]) -> Callable[[str], Any]:
    return lambda text: read(_reply(text), Repairs())


class _SameReply:
    """A model with the same reply to every request."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def ask(
        self, purpose: str, prompt: str, fields: Mapping[str, str], read: Callable[[ChatReply, Repairs], Any], **_: Any
    ) -> Any:
        return read(_reply(self._text), Repairs())


def _finish(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run what never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


def _of_form(name: str) -> Callable[[str], Any]:
    fields = {"question": "What is the capital of France?", "evidence": "", "draft": ""}
    form = build_verifier(name)
    return lambda text: astuple(_finish(form.observe(_SameReply(text), fields, judge_alike(PASSAGES))))


def _read_grades(text: str) -> list[float]:
    controller = crag._Controller(crag.Crag())
    view: Any = SimpleNamespace(question=SimpleNamespace(text="What is the capital of France?"))
    calls: Any = _SameReply(text)
    _finish(controller._grade_together(view, PASSAGES, calls))
    return list(controller._grades.values())


def _read_made_question(text: str) -> tuple[str, ...]:
    question, answer = read_made_question(_reply(text), Repairs())
    return question, answer, str(find_fault(question, answer, QuestionSeed("two_hop", PASSAGES, "France")))


def _read_body(text: str) -> ChatReply:
    request = ChatRequest("answer", (Message("user", "?"),), top_logprobs=1, stop=("</search>",))
    body = text.encode("utf-8", "replace")
    return read_reply(body, request, server="it", seconds=0.0, secrets=("secret",))


def _read_content(text: str) -> ChatReply:
    content = text.encode("utf-8", "replace").decode()
    logprobs = {"content": [{"token": content[at : at + 30], "logprob": -1} for at in range(0, len(content), 30)]}
    choice = {"message": {"content": content}, "finish_reason": "length", "logprobs": logprobs}
    return _read_body(json.dumps({"choices": [choice]}))


READERS: Mapping[str, Callable[[str], Any]] = {
    **{f"verifier form {name}": _of_form(name) for name in VERIFIERS},
    "object": lambda text: read_json_object(text, Repairs()),
    "line": read_line,
    "nothing is missing": lambda text: _SAYS_SUFFICIENT.match(read_line(text)),
    "answer": read_answer,
    "sentence": reasoning.first_sentence,
    "search dialogue": _of_reply(rl_search._read_step),
    "draft with probabilities": _of_reply(flare._Controller(flare.Flare())._read),
    "answer with probability": _of_reply(uncertainty_gate._Controller(uncertainty_gate.UncertaintyGate())._read),
    "slots": _of_reply(slots._read_slots),
    "grades": _read_grades,
    "made question": _read_made_question,
    "yes or no": _of_reply(self_rag._read_yes),
    "route": _of_reply(adaptive_rag._read_route),
    "judgement": _of_reply(read_verdict),
    "probability of yes": lambda text: probability.read_probability_of_yes(_reply(text).tokens or ()),
    "verifier's draft": _of_reply(probability.read_draft),
    "body of a completion": _read_body,
    "content of a completion": _read_content,
    "stored reply": partial(read_reply_json, "0" * 64),
    "server's message": lambda text: one_line(text, secrets=("secret",)),
    "Retry-After": lambda text: read_retry_after({"retry-after": text}),
    "escaped text": escape,
}
"""All functions that read what a model or its server sent."""


@dataclass
class Outcome:
    """What the readers did."""

    read: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    """Reader, text, and what happened."""
    slowest: float = 0.0


def fuzz(texts: Iterator[str]) -> Outcome:
    """Return each text to each reader."""
    outcome = Outcome()
    for text in texts:
        for name, read in READERS.items():
            began = time.perf_counter()
            try:
                value = read(text)
            except BeliefRAGError:
                outcome.refused[name] += 1
            except Exception as error:
                outcome.faults.append((name, text, repr(error)))
            else:
                outcome.read[name] += 1
                if not all(math.isfinite(number) for number in _numbers(value)):
                    outcome.faults.append((name, text, f"gave {value!r}"))
            outcome.slowest = max(outcome.slowest, time.perf_counter() - began)
    return outcome


def _numbers(value: object) -> Sequence[float]:
    if isinstance(value, float):
        return (value,)
    if isinstance(value, list | tuple):
        return [number for each in value for number in _numbers(each)]
    return ()


def main() -> None:
    """Fuzz, print the counts and the first faults, and fail if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    outcome = fuzz(make_texts(asked.n, asked.seed))
    result = {
        "texts": asked.n,
        "seed": asked.seed,
        "readers": {name: {"read": outcome.read[name], "refused": outcome.refused[name]} for name in READERS},
        "faults": len(outcome.faults),
        "slowest_seconds": round(outcome.slowest, 4),
    }
    text = json.dumps(result, indent=2) + "\n"
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")
    print(text)
    for fault in outcome.faults[:20]:
        print(*map(ascii, fault))
    raise SystemExit(bool(outcome.faults))


if __name__ == "__main__":
    main()
