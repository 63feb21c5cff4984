"""A model behind any server that speaks OpenAI's chat API: hosted, vLLM, Ollama, llama.cpp."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import openai

from beliefrag.errors import ModelError, SettingsError, TransportError
from beliefrag.models.failures import from_connection, from_status, one_line, wait_asked_for
from beliefrag.models.openai_reply import StoppedThinkingError, read_reply
from beliefrag.models.protocol import ChatReply, ChatRequest

__all__ = ["OpenAICompatible"]

_HOSTED = "https://api.openai.com/v1"
_NO_KEY = "no-key"
_FORMATS = ("json_schema", "json_object", None)
_ABOUT_FORMAT = ("response_format", "json_schema", "json_object", "json mode", "structured output", "grammar")
_OURS = {"model", "messages", "stream", "n", "temperature", "max_tokens", "max_completion_tokens"}
_OURS |= {"response_format", "logprobs", "top_logprobs", "stop"}
_ABOUT_STOP = re.compile(r"\bstop\b")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What the server has been found to understand. Starts hopeful and is narrowed when it objects."""

    format: str | None = "json_schema"
    logprobs: bool = True
    max_tokens: str = "max_tokens"
    stop: bool = True

    def narrowed(self, status: int, objection: str, sent: Mapping[str, Any]) -> _Dialect | None:
        """The next dialect to try; None when the objection is to something that we cannot do without."""
        if status not in (400, 422):
            return None
        if "max_tokens" in sent and "max_completion_tokens" in objection:
            return replace(self, max_tokens="max_completion_tokens")
        if "logprobs" in sent and "logprob" in objection:
            return replace(self, logprobs=False)
        if "stop" in sent and _ABOUT_STOP.search(objection):
            return replace(self, stop=False)
        if "response_format" in sent and (status == 422 or any(word in objection for word in _ABOUT_FORMAT)):
            return replace(self, format=_FORMATS[_FORMATS.index(self.format) + 1])
        return None


class OpenAICompatible:
    """Asks a server over HTTP, so that any hosted or local model can be used.

    Nothing is opened before the first call, and no key is needed to build one: a replay works without. It belongs to
    one event loop. A server that objects to the JSON schema is asked again with plain JSON mode, then without any; one
    that objects to probabilities is asked without. One that objects to stop texts, or whose model was stopped by one
    before it had done thinking, is no longer sent any, and its replies are cut here. What was found out is remembered
    and logged.

    Args:
        model: The name that the server knows the model by.
        base_url: Where the server is; `OPENAI_BASE_URL` or OpenAI itself by default.
        api_key: The key; `OPENAI_API_KEY` by default. A server given by its address needs none.
        timeout: The longest a whole call may take, in seconds.
        temperature: 0 as the method asks for. None sends none, for the models that only take their own; such replies
            differ from run to run, so the identity says so.
        extra: More fields for the request's body (`reasoning_effort`, `top_p`, ...). They are part of the identity.

    Raises:
        SettingsError: An argument cannot be used.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        temperature: float | None = 0.0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if not model.strip():
            raise SettingsError("The model has no name.", remedy="Give the name that the server knows it by.")
        if timeout <= 0:
            raise SettingsError(f"The timeout is {timeout:g} seconds.", remedy="Give a number above 0.")
        if taken := sorted(_OURS & set(extra or {})):
            raise SettingsError(f"extra must not set {', '.join(taken)}.", remedy="BeliefRAG sets these itself.")
        given = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        self._url = _url(given or _HOSTED)
        self._server = str(self._url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
        self._key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip() or (_NO_KEY if given else "")
        if not (self._key.isascii() and self._key.isprintable()):
            raise SettingsError("The API key has characters that no key has.", remedy="Copy OPENAI_API_KEY again.")
        self._secrets = _secrets(self._key, self._url)
        self._model = model
        self._timeout = timeout
        self._temperature = temperature
        self._extra = dict(extra or {})
        self._identity = f"openai:{model}@{self._server}{_mark(self._extra, temperature)}"
        self._client: openai.AsyncOpenAI | None = None
        self._dialect = _Dialect()
        self._reached = False

    @property
    def identity(self) -> str:
        """`openai:MODEL@BASE_URL`, and a hash of whatever else shapes the replies."""
        return self._identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Asks the server once, or again without what it objects to."""
        dialect = self._dialect
        while True:
            body = self._body(request, dialect)
            started = time.perf_counter()
            try:
                response = await self._post(body)
                seconds = time.perf_counter() - started
                break
            except openai.APIStatusError as error:
                self._reached = True
                narrower = dialect.narrowed(error.status_code, error.response.text.lower(), body)
                if narrower is None:
                    raise self._refusal(error) from None
                dialect = narrower
        self._reached = True
        self._remember(dialect)
        try:
            return read_reply(response.content, request, server=self._server, seconds=seconds, secrets=self._secrets)
        except StoppedThinkingError:
            self._remember(replace(dialect, stop=False))
            raise

    async def aclose(self) -> None:
        """Closes the connections. Calling it twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _body(self, request: ChatRequest, dialect: _Dialect) -> dict[str, Any]:
        body: dict[str, Any] = {
            **self._extra,
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "stream": False,
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if request.max_tokens is not None:
            body[dialect.max_tokens] = request.max_tokens
        if request.top_logprobs and dialect.logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.stop and dialect.stop:
            body["stop"] = list(request.stop)
        if request.schema is not None and dialect.format == "json_schema":
            schema = {"name": "reply", "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None and dialect.format is not None:
            body["response_format"] = {"type": dialect.format}
        return body

    def _remember(self, dialect: _Dialect) -> None:
        if dialect != self._dialect:
            _log.warning("%s does not take everything it was asked for; from now on: %s", self._server, dialect)
            self._dialect = dialect

    async def _post(self, body: Mapping[str, Any]) -> httpx2.Response:
        client = self._connected()
        try:
            # The client's own timeout is for each read: a server that sends a byte now and then would never reach it.
            async with asyncio.timeout(self._timeout):
                return await client.post("/chat/completions", cast_to=httpx2.Response, body=body)
        except (TimeoutError, openai.APITimeoutError):
            raise TransportError(
                f"{self._server} gave no reply within {self._timeout:g} s.",
                remedy="Look whether the server is overloaded, or raise the timeout.",
                retryable=True,
            ) from None
        except openai.APIConnectionError as error:
            raise from_connection(error, server=self._server, reached=self._reached) from None
        except UnicodeEncodeError:
            raise ModelError(
                "The request holds text that is not valid Unicode.", remedy="Read the document again as UTF-8."
            ) from None

    def _connected(self) -> openai.AsyncOpenAI:
        if not self._key:
            raise SettingsError(
                "There is no API key.", remedy="Set OPENAI_API_KEY, or give the base URL of a server that needs none."
            )
        if self._client is None:
            try:
                self._client = openai.AsyncOpenAI(
                    api_key=self._key,
                    base_url=self._url.copy_with(query=None),
                    default_query=dict(self._url.params),
                    max_retries=0,
                    timeout=httpx2.Timeout(self._timeout),
                )
            except (ImportError, OSError, ValueError) as error:
                raise SettingsError(
                    f"The HTTP client cannot be set up: {one_line(str(error), secrets=self._secrets)}",
                    remedy="Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE.",
                ) from None
        return self._client

    def _refusal(self, error: openai.APIStatusError) -> TransportError:
        said = error.body.get("message") if isinstance(error.body, dict) else None
        html = error.response.text.lstrip().startswith("<")
        detail = str(said) if said else "" if html else error.response.text
        code = error.code if error.code and not error.code.isdigit() and error.code not in detail else ""
        return from_status(
            error.status_code,
            server=self._server,
            detail=one_line(f"{detail} {code}", secrets=self._secrets),
            retry_after=wait_asked_for(error.response.headers),
        )


def _url(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text.strip())
    except (httpx2.InvalidURL, ValueError):
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        # The text is not shown: it may hold a password, and it cannot be taken apart.
        raise SettingsError(
            "The base URL is not a web address.",
            remedy="Give one like http://localhost:8000/v1 (http or https, a host).",
        )
    return url


def _secrets(key: str, url: httpx2.URL) -> tuple[str, ...]:
    # Short query values (a version, a region) are no secrets, and hiding them would garble what a server said.
    secrets = (key, url.password, *(value for value in url.params.values() if len(value) >= 8))
    return tuple(secret for secret in secrets if secret and secret != _NO_KEY)


def _mark(extra: Mapping[str, Any], temperature: float | None) -> str:
    shaping = dict(extra) if temperature == 0 else {**extra, "temperature": temperature}
    if not shaping:
        return ""
    try:
        canonical = json.dumps(shaping, sort_keys=True)
    except (TypeError, ValueError):
        raise SettingsError("extra holds something that is not JSON.", remedy="Use texts, numbers and lists.") from None
    return "#" + hashlib.sha256(canonical.encode()).hexdigest()[:8]
