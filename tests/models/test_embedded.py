"""The embedded model on real weights (SmolLM2, 98 MB): small enough for every test run, and the same code path."""

import asyncio
import itertools
import json
import math
import subprocess
import sys
import urllib.error
import urllib.request
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from beliefrag.errors import ModelError
from beliefrag.models import embedded as embedded_module
from beliefrag.models.download import DownloadError, pull
from beliefrag.models.embedded import Embedded, LlamaEngine
from beliefrag.models.protocol import ChatRequest, Message

pytestmark = pytest.mark.weights

PASSAGES = "The river Aar rises in the Alps and flows north through Bern. It joins the Rhine near Koblenz. " * 8
SCHEMA = {
    "type": "object",
    "properties": {
        "ids": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 5}, "maxItems": 3},
        "support": {"type": "integer", "minimum": 0, "maximum": 10},
        "verdict": {"enum": ["good", "bad"]},
    },
    "required": ["ids", "support", "verdict"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The weights, pulled on first use."""
    try:
        return pull("smollm2-135m")
    except DownloadError as error:
        pytest.skip(f"the weights smollm2-135m cannot be had: {error.message}")


@pytest.fixture(scope="module")
def model(smollm2: Path) -> Iterator[Embedded]:
    # One thread, because other tests run beside; models of single tests have one for each processor.
    model = Embedded(smollm2, context=2048, threads=1)
    yield model
    asyncio.run(model.aclose())


def ask(text: str, *, system: str = "You are brief.", **more: Any) -> ChatRequest:
    messages = (Message("system", system), Message("user", text))
    return ChatRequest(purpose="test", messages=messages, **{"max_tokens": 12, **more})


@pytest.fixture
def engine_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of each call that reached an engine, and how often one was loaded."""
    happened: list[str] = []

    class Watched(LlamaEngine):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            happened.append("loaded")
            super().__init__(*args, **kwargs)

        def generate(self, *args: Any, **kwargs: Any) -> Any:
            pieces = 0
            is_stopped = kwargs.pop("is_stopped")

            def count() -> bool:
                nonlocal pieces
                pieces += 1
                return bool(is_stopped())

            try:
                reply = super().generate(*args, **kwargs, is_stopped=count)
            except ModelError:
                happened.append("stopped early" if pieces < kwargs["max_tokens"] / 2 else "stopped at its end")
                raise
            happened.append("generated")
            return reply

    monkeypatch.setattr(embedded_module, "LlamaEngine", Watched)
    return happened


@pytest.fixture
def read_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tokens of each prompt were computed, and not in memory."""
    counts: list[int] = []

    def join(chunks: Any, *args: Any) -> Any:
        counts.append(chunks[-1]["timings"]["prompt_n"])
        return join_chunks(chunks, *args)

    join_chunks = embedded_module._join_chunks
    monkeypatch.setattr(embedded_module, "_join_chunks", join)
    return counts


async def test_the_reply_follows_the_schema(model: Embedded) -> None:
    reply = await model.chat(ask("Tell me a long story about a dog.", schema=SCHEMA, max_tokens=60))
    value = json.loads(reply.text)
    assert set(value) == {"ids", "support", "verdict"}
    assert all(1 <= number <= 5 for number in value["ids"])
    assert len(value["ids"]) <= 3
    assert value["verdict"] in ("good", "bad")
    assert reply.text == json.dumps(value), "compact so that no tokens go into white space"


async def test_a_schema_that_cannot_be_enforced_is_an_error_and_not_free_text(model: Embedded) -> None:
    with pytest.raises(ModelError, match="JSON schema"):
        await model.chat(ask("Tell me a story.", schema={"type": "object", "properties": {"a": {"type": "banana"}}}))


@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["free", "schema"])
async def test_probabilities_come_for_every_token_of_the_text(model: Embedded, schema: dict[str, Any] | None) -> None:
    reply = await model.chat(ask("Is water wet? Answer yes or no.", top_logprobs=5, schema=schema, max_tokens=40))
    assert reply.tokens
    assert "".join(token.token for token in reply.tokens) == reply.text
    for token in reply.tokens:
        assert len(token.top) == 5
        assert token.logprob <= 0
        assert 0 < math.fsum(math.exp(logprob) for _, logprob in token.top) <= 1 + 1e-6
        assert [logprob for _, logprob in token.top] == sorted((p for _, p in token.top), reverse=True)


async def test_a_reply_is_shown_while_it_is_written(model: Embedded) -> None:
    shown: list[str] = []
    reply = await model.chat(ask("Count: one two three four five six", max_tokens=24, on_text=shown.append))
    assert len(shown) > 5 and shown[-1] == reply.text
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown))


async def test_a_stop_text_ends_the_reply_before_it_is_written(model: Embedded) -> None:
    whole = await model.chat(ask("Count: one two three four five six", max_tokens=24, top_logprobs=1))
    stop = whole.text[6:12]
    stopped = await model.chat(
        ask("Count: one two three four five six", max_tokens=24, top_logprobs=1, stop=("</a>", stop))
    )
    assert stopped.text == whole.text[: whole.text.find(stop)]
    assert stopped.tokens_out < whole.tokens_out
    assert not stopped.truncated
    assert stopped.tokens
    spelt = "".join(token.token for token in stopped.tokens)
    assert spelt.startswith(stopped.text)
    assert len(spelt) - len(stopped.tokens[-1].token) < len(stopped.text)


async def test_the_beginning_of_a_prompt_is_not_read_twice(model: Embedded, read_counts: list[int]) -> None:
    one, other = PASSAGES, PASSAGES.replace("river", "stream").replace("Alps", "hills")
    first = await model.chat(ask(one + "Where does it rise?", system="You answer."))
    await model.chat(ask(one + "What does it join?", system="You answer."))
    await model.chat(ask(other + "Where?", system="You verify."))
    await model.chat(ask(one + "Which way?", system="You answer."))
    new, joined, _, after_another = read_counts
    assert new > first.tokens_in / 2
    assert max(joined, after_another) < first.tokens_in / 10


async def test_a_prompt_that_does_not_fit_says_how_long_it_is_and_what_to_set(model: Embedded) -> None:
    with pytest.raises(ModelError, match=r"prompt .*\b30\d\d .*context .*\b2048\b") as caught:
        await model.chat(ask("word " * 3000))
    assert "BELIEFRAG_CONTEXT=30" in caught.value.remedy
    assert (await model.chat(ask("Say hello."))).text


async def test_a_reply_that_the_context_has_no_room_for_is_an_error_and_not_a_cut_reply(smollm2: Path) -> None:
    model = Embedded(smollm2, context=256)
    try:
        with pytest.raises(ModelError, match="do not fit"):
            await model.chat(
                ask("word " * 190 + "Tell a story.", schema={"type": "string", "minLength": 600}, max_tokens=1000)
            )
    finally:
        await model.aclose()


async def test_marks_of_the_chat_template_in_a_message_are_only_text(model: Embedded) -> None:
    plain = await model.chat(ask("x", max_tokens=1))
    marked = await model.chat(ask("x<|im_end|>", max_tokens=1))
    assert marked.tokens_in - plain.tokens_in >= 4, "as a mark it would be a single token"


async def test_a_call_cancelled_while_it_runs_is_broken_off(smollm2: Path, engine_calls: list[str]) -> None:
    model = Embedded(smollm2, context=2048)
    try:
        await model.chat(ask("Say hello."))
        running = asyncio.create_task(model.chat(ask("Tell me a very long story.", max_tokens=1500)))
        await asyncio.sleep(0.3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await model.chat(ask("Say hello again."))).text
    finally:
        await model.aclose()
    assert engine_calls == ["loaded", "generated", "stopped early", "generated"]


async def test_closing_breaks_off_what_runs_and_frees_the_model(smollm2: Path, engine_calls: list[str]) -> None:
    model = Embedded(smollm2, context=2048)
    await model.chat(ask("Say hello."))
    engine = weakref.ref(model._engine)
    calls = [asyncio.create_task(model.chat(ask("Tell me a long story.", max_tokens=1500))) for _ in range(2)]
    await asyncio.sleep(0.2)
    await model.aclose()
    await model.aclose()
    for call in calls:
        with pytest.raises(ModelError, match="has been closed"):
            await call
    with pytest.raises(ModelError, match="has been closed"):
        await model.chat(ask("Say hello."))
    calls.clear()
    del call
    assert engine() is None
    assert engine_calls == ["loaded", "generated", "stopped early"]


async def test_the_same_prompt_gives_the_same_probabilities_when_nothing_is_reused(smollm2: Path) -> None:
    texts = ("Name a colour.", "Something else in between.", "Name a colour.")
    model = Embedded(smollm2, context=1024, reuse_prefix=False)
    try:
        first, _, again = [await model.chat(ask(text, top_logprobs=3)) for text in texts]
    finally:
        await model.aclose()
    assert first.text == again.text
    assert first.tokens == again.tokens


def test_known_weights_keep_their_identity_under_another_name(smollm2: Path, tmp_path: Path) -> None:
    (tmp_path / "renamed.gguf").symlink_to(smollm2)
    assert Embedded(tmp_path / "renamed.gguf").identity == "local:smollm2-135m:b179c9523d0e6a0f"
    assert Embedded(smollm2).identity == "local:smollm2-135m:b179c9523d0e6a0f"


async def test_weights_that_are_cut_short_are_one_clear_error(smollm2: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    with smollm2.open("rb") as whole:
        short.write_bytes(whole.read(20_000_000))
    model = Embedded(short)
    with pytest.raises(ModelError, match=r"short\.gguf .*damaged.*Get the file"):
        await model.chat(ask("Say hello."))
    await model.aclose()


def test_the_port_that_the_runtime_opens_is_locked(model: Embedded) -> None:
    asyncio.run(model.chat(ask("Say hello.")))
    assert model._engine is not None
    address = model._engine._server.listening_address
    assert address.startswith("http://127.0.0.1:")
    for path, body in (("/v1/models", None), ("/v1/chat/completions", b"{}"), ("/slots", None), ("/props", None)):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(address + path, data=body), timeout=5)
        assert caught.value.code == 401
        caught.value.close()


SCRIPT = """
import asyncio, os, sys
from beliefrag.models.embedded import Embedded
from beliefrag.models.protocol import ChatRequest, Message
assert "xllamacpp" not in sys.modules
model = Embedded(sys.argv[1], context=512)
assert "xllamacpp" not in sys.modules
async def main():
    request = ChatRequest("test", (Message("user", "Say hello."),), schema={"type": "boolean"}, max_tokens=5)
    reply = await model.chat(request)
    if sys.argv[2] == "close":
        await model.aclose()
    print(reply.text, os.environ["OMP_WAIT_POLICY"])
asyncio.run(main())
"""


@pytest.mark.parametrize(("ending", "policy"), [("close", None), ("leave", "passive")])
def test_the_runtime_writes_nothing_and_leaves_quietly(
    smollm2: Path, ending: str, policy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if policy:
        monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(smollm2), ending]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.returncode == 0
    assert done.stdout in (f"true {policy or 'PASSIVE'}\n", f"false {policy or 'PASSIVE'}\n")
