"""A model behind any server that speaks OpenAI's chat API: hosted, vLLM, Ollama, llama.cpp."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import openai

from beliefrag.errors import ModelError, SettingsError, TransportError
from beliefrag.models.failures import connection_error, one_line, read_retry_after, status_error
from beliefrag.models.openai_reply import StoppedThinkingError, read_reply
from beliefrag.models.openai_stream import CompletionStream
from beliefrag.models.protocol import ChatReply, ChatRequest

_HOSTED = "https://api.openai.com/v1"
_NO_KEY = "no-key"
_FORMATS = ("json_schema", "json_object", None)
_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output", "grammar")
_REPLY_LIMITS = (16_384, 4_096, 1_024)
"""The longest reply in tokens where the request names none: the first that the server takes."""
_LIMIT_WORDS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "in the completion", "output tokens")
_START_OF_THOUGHT, _END_OF_THOUGHT = (re.compile(rb"(?:<|\\u003[cC])%bthink" % slash) for slash in (b"", b"/"))
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Which request fields the server accepts. It starts with all of them, and loses those that the server rejects."""

    format: str | None = "json_schema"
    logprobs: bool = True
    max_tokens: str = "max_tokens"
    stop: bool = True
    stream: bool = True
    stream_usage: bool = True
    hides_thinking: bool = False
    """Whether its thinking has an end tag and no start tag, so that it looks like the answer until it ends."""
    reply_limit: int = _REPLY_LIMITS[0]

    def without_rejected(
        self, status: int, complaint: str, sent: Mapping[str, Any], request: ChatRequest
    ) -> _Dialect | None:
        """Return the next dialect to try; None when the server rejects something that cannot be left out."""
        if status not in (400, 422):
            return None
        if any(word in complaint for word in _LIMIT_WORDS):
            if "max_tokens" in sent and "max_completion_tokens" in complaint:
                return replace(self, max_tokens="max_completion_tokens")
            shorter = [limit for limit in _REPLY_LIMITS if limit < self.reply_limit and request.max_tokens is None]
            return replace(self, reply_limit=shorter[0]) if shorter else None
        changed: dict[str, Any] = {}
        if "logprobs" in sent and "logprob" in complaint:
            changed = {"logprobs": False}
        elif "stream_options" in sent and "stream_options" in complaint:
            changed = {"stream_usage": False}
        elif sent["stream"] and re.search(r"\bstream", complaint):
            changed = {"stream": False}
        elif "stop" in sent and re.search(r"\bstop\b", complaint):
            changed = {"stop": False}
        elif "response_format" in sent and (status == 422 or any(word in complaint for word in _FORMAT_WORDS)):
            changed = {"format": _FORMATS[_FORMATS.index(self.format) + 1]}
        return replace(self, **changed) if changed else None


class OpenAICompatible:
    """Asks a server over HTTP; nothing is opened before the first call, so a replay needs no key.

    Request fields that the server rejects are left out, remembered and logged. `OPENAI_BASE_URL` and `OPENAI_API_KEY`
    are the defaults; a server given by its address needs no key. A temperature of None sends none, and without
    `limit_replies` no limit is sent where a request names none.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 120.0,
        temperature: float | None = 0.0,
        limit_replies: bool = True,
    ) -> None:
        if not model.strip():
            raise SettingsError("The model has no name.", remedy="Give the name that the server knows it by.")
        if timeout <= 0:
            raise SettingsError(f"The timeout is {timeout:g} seconds.", remedy="Give a number above 0.")
        given = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        self._url = _parse_url(given or _HOSTED)
        self._server = str(self._url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
        self._key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip() or (_NO_KEY if given else "")
        if not (self._key.isascii() and self._key.isprintable()):
            raise SettingsError("The API key has characters that no key has.", remedy="Copy OPENAI_API_KEY again.")
        # Short query values (a version, a region) are not secrets, and hiding them would spoil what a server said.
        secrets = (self._key, self._url.password, *(value for value in self._url.params.values() if len(value) >= 8))
        self._secrets = tuple(secret for secret in secrets if secret and secret != _NO_KEY)
        self._model = model
        self._timeout = timeout
        self._temperature = temperature
        self._limit_replies = limit_replies
        shaping = json.dumps({"temperature": temperature} | ({} if limit_replies else {"limit_replies": False}))
        usual = temperature == 0 and limit_replies
        suffix = "" if usual else "#" + hashlib.sha256(shaping.encode()).hexdigest()[:8]
        self._identity = f"openai:{model}@{self._server}{suffix}"
        self._client: openai.AsyncOpenAI | None = None
        self._dialect = _Dialect()
        self._reached = False

    @property
    def identity(self) -> str:
        """`openai:MODEL@BASE_URL`, and a hash of what shapes replies unless it is as usual."""
        return self._identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Send the request, and repeat it without the fields that the server rejects."""
        dialect = self._dialect
        while True:
            body = self._body(request, dialect)
            stream = None
            if request.on_text is not None and body["stream"]:
                stream = CompletionStream(request.on_text, request.stop, hides_start=dialect.hides_thinking)
            started = time.perf_counter()
            try:
                longest = body.get(dialect.max_tokens, dialect.reply_limit)
                response = await self._post(body, largest_body(request, longest), stream)
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
            content = stream.join(response.content, server=self._server) if stream else response.content
            if _END_OF_THOUGHT.search(content) and not _START_OF_THOUGHT.search(content):
                self._dialect = replace(self._dialect, hides_thinking=True)
            return read_reply(content, request, server=self._server, seconds=seconds, secrets=self._secrets)
        except StoppedThinkingError:
            self._remember(replace(dialect, stop=False))
            raise

    async def aclose(self) -> None:
        """Close the connections. Calling it twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _body(self, request: ChatRequest, dialect: _Dialect) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "stream": request.on_text is not None and dialect.stream,
        }
        if body["stream"] and dialect.stream_usage:
            body["stream_options"] = {"include_usage": True}
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if self._limit_replies or request.max_tokens is not None:
            body[dialect.max_tokens] = dialect.reply_limit if request.max_tokens is None else request.max_tokens
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

    async def _post(self, body: Mapping[str, Any], most_bytes: int, stream: CompletionStream | None) -> httpx2.Response:
        client = self._get_client()
        _BODY_LIMIT.set(most_bytes)
        _STREAM.set(stream)
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
            remedy = "Check the base URL, and whether the server keeps to max_tokens."
            raise TransportError(f"{self._server} sent more than the request allows: {error}.", remedy=remedy) from None
        except openai.APIConnectionError as error:
            raise connection_error(error, server=self._server, reached=self._reached) from None
        except UnicodeEncodeError:
            remedy = "Read the document again as UTF-8."
            raise ModelError("The request holds text that is not valid Unicode.", remedy=remedy) from None

    def _get_client(self) -> openai.AsyncOpenAI:
        if not self._key:
            remedy = "Set OPENAI_API_KEY, or give the base URL of a server that needs none."
            raise SettingsError("There is no API key.", remedy=remedy)
        if self._client is None:
            try:
                self._client = openai.AsyncOpenAI(
                    api_key=self._key,
                    base_url=self._url.copy_with(query=None),
                    default_query=dict(self._url.params),
                    max_retries=0,
                    timeout=httpx2.Timeout(self._timeout),
                    default_headers={"Accept-Encoding": "identity"},
                    http_client=_BoundedClient(timeout=httpx2.Timeout(self._timeout)),
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
    with contextlib.suppress(httpx2.InvalidURL, ValueError):
        url = httpx2.URL(text.strip())
        if url.scheme in ("http", "https") and url.host:
            return url
    # The text is not shown: it may hold a password.
    remedy = "Give one like http://localhost:8000/v1 (http or https, a host)."
    raise SettingsError("The base URL is not a web address.", remedy=remedy)


# Bytes of an honest reply: around the text, for each token (more in an event), and for each token with its probability.
_MARGIN, _PER_TOKEN, _PER_EVENT, _PER_PROBABILITY = 1024 * 1024, 256, 1024, 320
_LONGEST_ERROR = 64 * 1024
_BODY_LIMIT: ContextVar[int] = ContextVar("body_limit", default=_MARGIN)
_STREAM: ContextVar[CompletionStream | None] = ContextVar("stream", default=None)


def largest_body(request: ChatRequest, max_tokens: int) -> int:
    """Return how many bytes an honest reply to a request has at most."""
    probabilities = (request.top_logprobs + 1) * _PER_PROBABILITY if request.top_logprobs else 0
    return _MARGIN + max_tokens * ((_PER_TOKEN if request.on_text is None else _PER_EVENT) + probabilities)


class BodyTooLongError(openai.OpenAIError):
    """The body of a reply is longer than any reply to the request can be."""


class _BoundedClient(openai.DefaultAsyncHttpxClient):
    """Reads a body up to a limit so that no server can fill the memory; of an error's body, the beginning."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, event_hooks={"response": [_drop_body_of_redirect]})

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        response = await super().send(request, **{**how, "stream": True})
        limit, stream = _BODY_LIMIT.get() if response.is_success else _LONGEST_ERROR, _STREAM.get()
        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if stream is not None and response.is_success:
                    stream.feed(chunk)
                if len(body) > limit:
                    if response.is_success:
                        raise BodyTooLongError(f"the reply is longer than {limit:,} bytes")
                    break
        finally:
            await response.aclose()
        # The body is decoded already, and its length is the one that it has now.
        described = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in described]
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body[:limit]), request=request)


async def _drop_body_of_redirect(response: httpx2.Response) -> None:
    # The client would read it to its end before it follows the redirect.
    if response.has_redirect_location and isinstance(response.stream, httpx2.AsyncByteStream):
        await response.stream.aclose()
        response.stream = httpx2.ByteStream(b"")
