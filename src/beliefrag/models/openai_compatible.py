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
from beliefrag.models.bounded_http import BODY_LIMIT, BodyTooLongError, BoundedClient, largest_body
from beliefrag.models.failures import connection_error, one_line, read_retry_after, status_error
from beliefrag.models.openai_reply import StoppedThinkingError, read_reply
from beliefrag.models.protocol import ChatReply, ChatRequest

__all__ = ["OpenAICompatible"]

_HOSTED = "https://api.openai.com/v1"
_NO_KEY = "no-key"
_FORMATS = ("json_schema", "json_object", None)
_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output", "grammar")
_RESERVED_FIELDS = {"model", "messages", "stream", "n", "temperature", "max_tokens", "max_completion_tokens"}
_RESERVED_FIELDS |= {"response_format", "logprobs", "top_logprobs", "stop"}
_REPLY_LIMITS = (16_384, 4_096, 1_024)
"""The longest reply in tokens where the request names none: the first that the server takes. It stops a model that
never ends. It is set here, below the cache, so that it is no part of a reply's key."""
_LIMIT_WORDS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "in the completion", "output tokens")
_STOP_WORD = re.compile(r"\bstop\b")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Which request fields the server accepts. It starts with all of them, and loses those that the server rejects."""

    format: str | None = "json_schema"
    logprobs: bool = True
    max_tokens: str = "max_tokens"
    stop: bool = True
    reply_limit: int = _REPLY_LIMITS[0]
    """The longest reply where the request names none."""

    def max_tokens_of(self, request: ChatRequest) -> int:
        """Says how many tokens the reply to a request may have."""
        return self.reply_limit if request.max_tokens is None else request.max_tokens

    def without_rejected(
        self, status: int, complaint: str, sent: Mapping[str, Any], request: ChatRequest
    ) -> _Dialect | None:
        """Gives the next dialect to try; None when the server rejects something that cannot be left out."""
        if status not in (400, 422):
            return None
        if any(word in complaint for word in _LIMIT_WORDS):
            return self._with_other_limit(complaint, sent, request)
        if "logprobs" in sent and "logprob" in complaint:
            return replace(self, logprobs=False)
        if "stop" in sent and _STOP_WORD.search(complaint):
            return replace(self, stop=False)
        if "response_format" in sent and (status == 422 or any(word in complaint for word in _FORMAT_WORDS)):
            return replace(self, format=_FORMATS[_FORMATS.index(self.format) + 1])
        return None

    def _with_other_limit(self, complaint: str, sent: Mapping[str, Any], request: ChatRequest) -> _Dialect | None:
        if "max_tokens" in sent and "max_completion_tokens" in complaint:
            return replace(self, max_tokens="max_completion_tokens")
        shorter = [limit for limit in _REPLY_LIMITS if limit < self.reply_limit]
        return replace(self, reply_limit=shorter[0]) if request.max_tokens is None and shorter else None


class OpenAICompatible:
    """Asks a server over HTTP, so that any hosted or local model can be used.

    Nothing is opened before the first call, and an object needs no key: a replay works without one. It belongs to one
    event loop. If the server rejects the JSON schema, the request is repeated with plain JSON mode and then without it;
    if it rejects probabilities, without them; if it finds the longest reply too long, with a lower limit. If it rejects
    stop texts, or a stop text ended the model's thinking, they are no longer sent, and the replies are cut
    here. What the server rejected is remembered and logged. A body is read as far as a reply to the request can go.

    Args:
        model: The name that the server knows the model by.
        base_url: Where the server is; `OPENAI_BASE_URL` or OpenAI itself by default.
        api_key: The key; `OPENAI_API_KEY` by default. A server given by its address needs none.
        timeout: The longest time of a whole call, in seconds.
        temperature: 0, as the method needs. None sends none, for models that accept only their own; such replies
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
        if taken := sorted(_RESERVED_FIELDS & set(extra or {})):
            raise SettingsError(f"extra must not set {', '.join(taken)}.", remedy="BeliefRAG sets these itself.")
        given = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        self._url = _parse_url(given or _HOSTED)
        self._server = str(self._url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
        self._key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip() or (_NO_KEY if given else "")
        if not (self._key.isascii() and self._key.isprintable()):
            raise SettingsError("The API key has characters that no key has.", remedy="Copy OPENAI_API_KEY again.")
        self._secrets = _find_secrets(self._key, self._url)
        self._model = model
        self._timeout = timeout
        self._temperature = temperature
        self._extra = dict(extra or {})
        self._identity = f"openai:{model}@{self._server}{_identity_suffix(self._extra, temperature)}"
        self._client: openai.AsyncOpenAI | None = None
        self._dialect = _Dialect()
        self._reached = False

    @property
    def identity(self) -> str:
        """`openai:MODEL@BASE_URL`, and a hash of whatever else shapes the replies."""
        return self._identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Sends the request, and repeats it without the fields that the server rejects."""
        dialect = self._dialect
        while True:
            body = self._body(request, dialect)
            started = time.perf_counter()
            try:
                response = await self._post(body, largest_body(request, dialect.max_tokens_of(request)))
                seconds = time.perf_counter() - started
                break
            except openai.APIStatusError as error:
                self._reached = True
                next_dialect = dialect.without_rejected(error.status_code, error.response.text.lower(), body, request)
                if next_dialect is None:
                    raise self._explain_refusal(error) from None
                dialect = next_dialect
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
        body[dialect.max_tokens] = dialect.max_tokens_of(request)
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
            _log.warning("%s rejects some request fields; from now on: %s", self._server, dialect)
            self._dialect = dialect

    async def _post(self, body: Mapping[str, Any], most_bytes: int) -> httpx2.Response:
        client = self._get_client()
        BODY_LIMIT.set(most_bytes)
        try:
            # The timeout of the client is for each read: a server that sends a byte now and then would never exceed it.
            async with asyncio.timeout(self._timeout):
                return await client.post("/chat/completions", cast_to=httpx2.Response, body=body)
        except (TimeoutError, openai.APITimeoutError):
            raise TransportError(
                f"{self._server} gave no reply within {self._timeout:g} s.",
                remedy="Check whether the server is overloaded, or raise the timeout.",
                retryable=True,
            ) from None
        except BodyTooLongError as error:
            raise TransportError(
                f"{self._server} sent more than the request allows: {error}.",
                remedy="Check the base URL, and whether the server keeps to max_tokens.",
            ) from None
        except openai.APIConnectionError as error:
            raise connection_error(error, server=self._server, reached=self._reached) from None
        except UnicodeEncodeError:
            raise ModelError(
                "The request holds text that is not valid Unicode.", remedy="Read the document again as UTF-8."
            ) from None

    def _get_client(self) -> openai.AsyncOpenAI:
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
                    # A small body that unpacks to a huge one is not asked for.
                    default_headers={"Accept-Encoding": "identity"},
                    http_client=BoundedClient(timeout=httpx2.Timeout(self._timeout)),
                )
            except (ImportError, OSError, ValueError) as error:
                raise SettingsError(
                    f"The HTTP client cannot be set up: {one_line(str(error), secrets=self._secrets)}",
                    remedy="Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE.",
                ) from None
        return self._client

    def _explain_refusal(self, error: openai.APIStatusError) -> TransportError:
        said = error.body.get("message") if isinstance(error.body, dict) else None
        html = error.response.text.lstrip().startswith("<")
        detail = str(said) if said else "" if html else error.response.text
        code = error.code if error.code and not error.code.isdigit() and error.code not in detail else ""
        return status_error(
            error.status_code,
            server=self._server,
            detail=one_line(f"{detail} {code}", secrets=self._secrets),
            retry_after=read_retry_after(error.response.headers),
        )


def _parse_url(text: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text.strip())
    except (httpx2.InvalidURL, ValueError):
        url = httpx2.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        # The text is not shown: it may hold a password.
        raise SettingsError(
            "The base URL is not a web address.",
            remedy="Give one like http://localhost:8000/v1 (http or https, a host).",
        )
    return url


def _find_secrets(key: str, url: httpx2.URL) -> tuple[str, ...]:
    # Short query values (a version, a region) are not secrets, and hiding them would spoil what a server said.
    secrets = (key, url.password, *(value for value in url.params.values() if len(value) >= 8))
    return tuple(secret for secret in secrets if secret and secret != _NO_KEY)


def _identity_suffix(extra: Mapping[str, Any], temperature: float | None) -> str:
    shaping = dict(extra) if temperature == 0 else {**extra, "temperature": temperature}
    if not shaping:
        return ""
    try:
        canonical = json.dumps(shaping, sort_keys=True)
    except (TypeError, ValueError):
        raise SettingsError("extra holds something that is not JSON.", remedy="Use texts, numbers and lists.") from None
    return "#" + hashlib.sha256(canonical.encode()).hexdigest()[:8]
