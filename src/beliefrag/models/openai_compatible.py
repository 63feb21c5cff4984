"""A model behind any server that speaks OpenAI's chat API: hosted, vLLM, Ollama, llama.cpp."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import openai

from beliefrag.errors import ModelError, SettingsError, TransportError
from beliefrag.models.capabilities import Capabilities, keep_learned, read_learned
from beliefrag.models.failures import connection_error, one_line, read_retry_after, status_error
from beliefrag.models.openai_reply import CutOffError, StoppedThinkingError, read_reply
from beliefrag.models.openai_stream import CompletionStream
from beliefrag.models.protocol import ChatReply, ChatRequest

_HOSTED = "https://api.openai.com/v1"
_NO_KEY = "no-key"
_OWN_FIELDS = frozenset({"model", "messages", "stream", "stream_options"})
_LIMIT_FIELDS = frozenset({"max_tokens", "max_completion_tokens"})
_KEY_HEADERS = frozenset({"authorization", "api-key", "x-api-key", "x-goog-api-key"})
_JSON, _LONG, _WITH_THOUGHTS, _LONGEST = 256, 512, 4_096, 16_384
_LIMITS = dict.fromkeys(("answer", "gate", "query_writer", "read", "rewriter", "router", "trigger"), 64)
_LIMITS |= dict.fromkeys(("grader", "verifier"), _JSON)
"""The longest reply in tokens by purpose where the request names none; JSON gets 256 and others 512."""
_log = logging.getLogger(__name__)


class OpenAICompatible:
    """Asks a server over HTTP; nothing is opened before the first call, so a replay needs no key.

    Request fields that the server rejects are left out, remembered (in the file `learned`) and logged. A server given
    by its address needs no key; `OPENAI_BASE_URL` and `OPENAI_API_KEY` are the defaults. A temperature of None sends
    none, and without `limit_replies` no limit is sent where a request names none. `extra_body` has further fields of
    each request, which replace ours. In `headers`, `$NAME` stands for a variable of the environment.
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
        extra_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        learned: Path | None = None,
    ) -> None:
        if not model.strip():
            raise SettingsError("The model has no name.", remedy="Give the name that the server uses.")
        if timeout <= 0:
            raise SettingsError(f"The timeout is {timeout:g} seconds.", remedy="Give a number above 0.")
        given = base_url or os.environ.get("OPENAI_BASE_URL") or ""
        self._url = _parse_url(given or _HOSTED)
        self._server = str(self._url.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
        self._key = (api_key or os.environ.get("OPENAI_API_KEY") or "").strip() or (_NO_KEY if given else "")
        if not (self._key.isascii() and self._key.isprintable()):
            raise SettingsError("The API key contains invalid characters.", remedy="Copy OPENAI_API_KEY again.")
        # Short query values (a version, a region) are not secrets, and hiding them would spoil what a server said.
        secrets = (self._key, self._url.password, *(value for value in self._url.params.values() if len(value) >= 8))
        self._secrets = tuple(secret for secret in secrets if secret and secret != _NO_KEY)
        self._model = model
        self._timeout = timeout
        self._temperature = temperature
        self._limit_replies = limit_replies
        self._extra = dict(extra_body or {})
        if ours := _OWN_FIELDS & set(self._extra):
            raise SettingsError(f"extra_body sets {min(ours)!r}, which is ours.", remedy="Leave it out.")
        self._headers = dict(headers or {})
        self._has_own_key = any(name.lower() in _KEY_HEADERS for name in self._headers)
        unusual: dict[str, Any] = {} if limit_replies else {"limit_replies": False}
        unusual |= {"extra_body": self._extra} if self._extra else {}
        shaping = json.dumps({"temperature": temperature} | unusual, sort_keys=bool(self._extra))
        suffix = "" if temperature == 0 and not unusual else "#" + hashlib.sha256(shaping.encode()).hexdigest()[:8]
        self._identity = f"openai:{model}@{self._server}{suffix}"
        self._client: openai.AsyncOpenAI | None = None
        self._known = self._said = Capabilities()
        self._learned = learned
        self._is_loaded = False
        self._trying = asyncio.Lock()
        self._reached = False

    @property
    def identity(self) -> str:
        """`openai:MODEL@BASE_URL`, and a hash of what shapes replies unless it is as usual."""
        return self._identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Send the request, and once more with a larger limit if ours cut the reply off."""
        if not self._is_loaded:
            self._is_loaded = True
            if self._learned is not None:
                # Not in a thread: other calls would begin before it is known.
                self._known = self._said = read_learned(self._learned).get(self._identity, self._known)
        limit = self._choose_limit(request)
        larger = min(self._known.longest, _WITH_THOUGHTS if limit < _WITH_THOUGHTS else _LONGEST)
        can_grow = self._limit_replies and limit < larger
        try:
            reply = await self._send(request, limit)
            if not (reply.truncated and can_grow and request.max_tokens is None):
                return reply
            wasted = reply.tokens_in + reply.tokens_out
        except CutOffError as error:
            if not can_grow:
                raise
            wasted = error.wasted_tokens
        try:
            again = await self._send(request, larger)
        except CutOffError as error:
            error.wasted_tokens += wasted
            raise
        return replace(again, retries=again.retries + 1, wasted_tokens=again.wasted_tokens + wasted)

    def _choose_limit(self, request: ChatRequest) -> int:
        limit = request.max_tokens
        if limit is None:
            limit = max(_LIMITS.get(request.purpose, _LONG), _JSON if request.schema else 0)
        # Thoughts count against the limit, but a request means the answer.
        return min(self._known.longest, max(limit, _WITH_THOUGHTS) if self._known.thinks else limit)

    async def _send(self, request: ChatRequest, limit: int) -> ChatReply:
        """Send a request. While it is unknown whether the server takes a field, one call at a time tries it."""
        if self._is_untried(request, limit):
            async with self._trying:
                if self._is_untried(request, limit):
                    return await self._send_accepted(request, limit)
        return await self._send_accepted(request, limit)

    def _is_untried(self, request: ChatRequest, limit: int) -> bool:
        return not _optional_fields(self._body(request, limit)) <= self._known.accepted

    async def _send_accepted(self, request: ChatRequest, limit: int) -> ChatReply:
        """Send the request, and repeat it without the fields that the server rejects."""
        asked = limit
        while True:
            known = self._known
            body = self._body(request, limit)
            stream = None
            if request.on_text is not None and body["stream"]:
                stream = CompletionStream(request.on_text, request.stop, hides_start=known.hides_thinking)
            started = time.perf_counter()
            try:
                longest = limit if known.limit in body else _LONGEST
                response = await self._post(body | self._extra, largest_body(request, longest), stream)
                seconds = time.perf_counter() - started
                break
            except openai.APIStatusError as error:
                self._reached = True
                learned = known.without_rejected(error.status_code, error.response.text.lower(), body)
                if learned is None:
                    raise self._explain_refusal(error) from None
                # A long prompt may be the cause: a lower limit is learned only where it leads to a reply.
                limit = min(limit, learned.longest)
                await self._learn(replace(learned, longest=known.longest))
        self._reached = True
        known = replace(known, accepted=_optional_fields(body), longest=limit if limit < asked else known.longest)
        content = stream.join(response.content, server=self._server) if stream else response.content
        try:
            reply = read_reply(content, request, server=self._server, seconds=seconds, secrets=self._secrets)
            if reply.thinking:
                known = replace(known, thinks=True, hides_thinking=reply.thinking == "end tag")
        except StoppedThinkingError:
            known = replace(known, stop=False)
            raise
        except CutOffError:
            known = replace(known, thinks=True)
            raise
        finally:
            await self._learn(known)
            self._log_lost_features()
        return reply

    async def aclose(self) -> None:
        """Close the connections. Calling it twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _body(self, request: ChatRequest, limit: int) -> dict[str, Any]:
        """Return the body without the options of the user, which come on top."""
        known = self._known
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "stream": request.on_text is not None and known.stream,
        }
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
        if self._temperature is not None and known.temperature:
            body["temperature"] = self._temperature
        if self._limit_replies or request.max_tokens is not None:
            body[known.limit] = min(limit, known.longest)
        if request.top_logprobs and known.logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        if request.stop and known.stop:
            body["stop"] = list(request.stop)
        if request.schema is not None and known.format == "json_schema":
            schema = {"name": "reply", "strict": True, "schema": dict(request.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None and known.format != "none":
            body["response_format"] = {"type": known.format}
        # What the user sets replaces ours: there is one limit only, whatever its name.
        hidden = set(self._extra) | (_LIMIT_FIELDS if _LIMIT_FIELDS & set(self._extra) else set())
        return {name: value for name, value in body.items() if name not in hidden}

    def _log_lost_features(self) -> None:
        """Log what the server does not take, once."""
        if losses := self._known.describe_losses(self._said):
            _log.warning("%s does not take %s: left out from now on.", self._server, losses)
        self._said = self._known

    async def _learn(self, learned: Capabilities) -> None:
        """Add what a call has learned to what is known."""
        before, self._known = self._known, self._known.merge(learned)
        if self._known != before and self._learned is not None:
            await asyncio.to_thread(keep_learned, self._learned, self._identity, self._known)

    async def _post(self, body: Mapping[str, Any], most_bytes: int, stream: CompletionStream | None) -> httpx2.Response:
        client = self._get_client()
        _BODY_LIMIT.set(most_bytes)
        _STREAM.set(stream)
        # Another server's key must not get OpenAI's as well.
        is_replaced = self._has_own_key and "authorization" not in map(str.lower, self._headers)
        options: Any = {"headers": {"Authorization": openai.Omit()}} if is_replaced else {}
        try:
            # The timeout of the client is for each read: a server that sends a byte now and then would never exceed it.
            async with asyncio.timeout(self._timeout):
                return await client.post("/chat/completions", cast_to=httpx2.Response, body=body, options=options)
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
        if not self._key and not self._has_own_key:
            remedy = "Set OPENAI_API_KEY, or give the base URL of a server that needs none."
            raise SettingsError("The API key is missing.", remedy=remedy)
        if self._client is None:
            headers = {name: self._read_header(name, value) for name, value in self._headers.items()}
            # A second reply to one call would answer the next call on its connection. It may come after any check of
            # an idle connection, and in HTTP/1.1 nothing tells which request it is for: each call has a connection.
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._secrets += tuple(value for value in headers.values() if len(value) >= 8)
            try:
                self._client = openai.AsyncOpenAI(
                    api_key=self._key or _NO_KEY,
                    base_url=self._url.copy_with(query=None),
                    default_query=dict(self._url.params),
                    max_retries=0,
                    timeout=httpx2.Timeout(self._timeout),
                    default_headers={"Accept-Encoding": "identity", **headers},
                    http_client=_BoundedClient(timeout=httpx2.Timeout(self._timeout), limits=limits),
                )
            except (ImportError, OSError, ValueError) as error:
                raise SettingsError(
                    f"The HTTP client cannot be set up: {one_line(str(error), secrets=self._secrets)}",
                    remedy="Check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE.",
                ) from None
        return self._client

    def _read_header(self, name: str, text: str) -> str:
        variable = text.removeprefix("$")
        value = (os.environ.get(variable, "") if variable != text else text).strip()
        # The value is not shown: it may be a key.
        if not (value and value.isascii() and value.isprintable() and name.isascii() and name.isprintable()):
            what = f"the variable {variable} is not set" if variable != text and not value else "its text is not valid"
            raise SettingsError(f"The header {name!a} cannot be sent: {what}.", remedy="Set it, or leave it out.")
        return value

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


def _optional_fields(body: Mapping[str, Any]) -> frozenset[str]:
    """Return the fields that some server rejects, with the kind of the format."""
    fields = {name for name, value in body.items() if name not in ("model", "messages", "top_logprobs") and value}
    fields |= {"temperature"} if "temperature" in body else set()
    return frozenset(f"{name}:{body[name]['type']}" if name == "response_format" else name for name in fields)


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
