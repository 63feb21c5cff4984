"""Each recipe of docs/servers.md, sent to a server that rejects what the real one is documented to reject."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from beliefrag.models import open_provider
from beliefrag.models.protocol import ChatModel
from beliefrag.settings import load_settings
from tests.support.chat import ask
from tests.support.http_server import ChatServer, Request, Response, completion, failure

PAGE = Path(__file__).parents[2] / "docs" / "servers.md"
RECIPES = dict(re.findall(r"^### (.*?)\n.*?^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE))
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
KEY = "sk-a-key-for-tests"
OPENAI = {
    *("model", "messages", "temperature", "max_tokens", "max_completion_tokens", "stream", "stream_options", "stop"),
    *("logprobs", "top_logprobs", "response_format", "reasoning_effort"),
}
TOKENS = {"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "yes", "logprob": -0.1}]}]}


class Refusal(Exception):
    pass


def refuse(when: object, message: str) -> None:
    if when:
        raise Refusal(message)


def need_bearer(request: Request) -> None:
    refuse(request.headers.get("authorization") != f"Bearer {KEY}", "Incorrect API key provided")


def only(request: Request, *fields: str) -> None:
    """What OpenAI and Google say of fields that they do not know."""
    for name in request.body:
        refuse(name not in fields, f"Unrecognized request argument supplied: {name}")


def plain(request: Request) -> Response:
    return completion("yes", logprobs=TOKENS if request.body.get("logprobs") else None)


def thinking(request: Request, *, thoughts: int = 90, field: str = "reasoning_content") -> Response:
    """Return a reply whose thoughts count against the limit."""
    limit = int(request.body.get("max_completion_tokens") or request.body["max_tokens"])
    details = {"prompt_tokens": 9, "completion_tokens": min(thoughts + 1, limit), "total_tokens": 100}
    usage = details | {"completion_tokens_details": {"reasoning_tokens": min(thoughts, limit)}}
    if limit <= thoughts:
        return completion("", message={field: "Let me think"}, finish="length", usage=usage)
    return completion("yes", message={field: "Let me think."}, usage=usage)


def openai(request: Request) -> Response:
    refuse(request.path != "/v1/chat/completions", "Not Found")
    need_bearer(request)
    only(request, *OPENAI)
    refuse("reasoning_effort" in request.body, "Unrecognized request argument supplied: reasoning_effort")
    return plain(request)


def openai_reasoning(request: Request) -> Response:
    need_bearer(request)
    only(request, *OPENAI)
    told = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    refuse("max_tokens" in request.body, told)
    told = (
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
    )
    refuse(request.body.get("temperature", 1) != 1, told)
    for name in ("logprobs", "top_logprobs", "stop"):
        refuse(name in request.body, f"Unsupported parameter: '{name}' is not supported with this model.")
    refuse(request.body.get("reasoning_effort") not in ("minimal", "low", "medium", "high"), "reasoning_effort")
    return thinking(request)


def azure(request: Request) -> Response:
    url = httpx2.URL(request.path)
    refuse(url.path != "/openai/deployments/my-deployment/chat/completions", "Resource not found")
    refuse(not re.fullmatch(r"\d{4}-\d\d-\d\d", url.params.get("api-version", "")), "Missing api-version")
    refuse(request.headers.get("api-key") != KEY or "authorization" in request.headers, "Access denied")
    only(request, *OPENAI)
    return plain(request)


def anthropic(request: Request) -> Response:
    need_bearer(request)
    refuse(not 0 <= request.body.get("temperature", 1) <= 1, "temperature: range: 0..1")
    return completion("yes")  # it ignores formats and probabilities


def gemini(request: Request) -> Response:
    refuse(request.path != "/v1beta/openai/chat/completions", "Not Found")
    need_bearer(request)
    for name in set(request.body) - OPENAI | {"logprobs", "top_logprobs"} & set(request.body):
        refuse(True, f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')
    return plain(request) if request.body.get("reasoning_effort") == "none" else thinking(request)


def vllm(request: Request) -> Response:
    refuse(request.body["max_tokens"] > 2048, "'max_tokens' or 'max_completion_tokens' is too large")
    return plain(request)


def qwen3(request: Request) -> Response:
    off = request.body.get("chat_template_kwargs", {}).get("enable_thinking") is False
    return plain(request) if off else thinking(request)


def gpt_oss(request: Request) -> Response:
    thoughts = {"low": 80, "medium": 900, "high": 9000}
    effort = request.body.get("reasoning_effort", "medium")
    refuse(effort not in thoughts, "reasoning_effort: Input should be 'low', 'medium' or 'high'")
    return thinking(request, thoughts=thoughts[effort], field="reasoning")


def llama_cpp(request: Request) -> Response:
    refuse(request.body.get("cache_prompt") is not True, "cache_prompt: type must be boolean")
    return qwen3(request)


SERVERS: dict[str, Callable[[Request], Response]] = {
    "OpenAI": openai,
    "OpenAI, reasoning models": openai_reasoning,
    "Azure OpenAI": azure,
    "Anthropic": anthropic,
    "Google Gemini": gemini,
    "vLLM": vllm,
    "Qwen3 on vLLM, thinking off": qwen3,
    "gpt-oss on vLLM": gpt_oss,
    "Ollama": gpt_oss,
    "llama.cpp": llama_cpp,
}


@pytest.fixture
def open_recipe(tmp_path: Path, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ChatModel]:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)

    def open_(name: str) -> ChatModel:
        current[:] = [name]
        file = tmp_path / "beliefrag.toml"
        file.write_text(re.sub(r'(?<=base_url = ")https?://[^/]+', f"http://{chat_server.host}", RECIPES[name]))
        settings = load_settings(config=file).settings
        return open_provider(settings.model, base_url=settings.base_url, options=settings.models)

    def play(request: Request) -> Response:
        try:
            return SERVERS[current[0]](request)
        except Refusal as refusal:
            return failure(400, str(refusal))

    current = [""]
    chat_server.play(play)
    return open_


def test_every_recipe_has_a_server() -> None:
    assert RECIPES.keys() == SERVERS.keys()


@pytest.mark.parametrize("name", SERVERS)
async def test_a_recipe_works_with_a_server_that_enforces_the_documented_form(
    open_recipe: Callable[[str], ChatModel], chat_server: ChatServer, name: str, tmp_path: Path
) -> None:
    requests: list[dict[str, Any]] = [{}, {"top_logprobs": 5}, {"schema": SCHEMA}, {"stop": ("</a>",)}]
    for expected in (None, 0):
        model = open_recipe(name)
        before = len(chat_server.requests)
        for more in requests:
            assert (await model.chat(ask(**more))).text == "yes"
        await model.aclose()
        # The second time, nothing is tried that was rejected or cut off before.
        extra = len(chat_server.requests) - before - len(requests)
        assert expected is None or extra == expected
    kept = (tmp_path / "cache" / "servers.json").read_text("utf-8")
    assert KEY not in kept and list(json.loads(kept)) == [model.identity]
