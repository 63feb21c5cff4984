"""A model that reads its replies from a file so that demos and tests use the whole program without a model."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beliefrag.errors import ModelError, SettingsError
from beliefrag.models.cost import LOCAL_COUNT, count_prompt, count_tokens
from beliefrag.models.failures import EmptyReplyError, status_error
from beliefrag.models.protocol import ChatReply, ChatRequest, TokenProbability, count_pieces, cut_at_stop

_log = logging.getLogger(__name__)

_Probability = Annotated[float, Field(gt=0, le=1)]
_Distribution = Annotated[dict[str, _Probability], Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Token(_Strict):
    token: str
    p: _Probability
    top: dict[str, _Probability] = {}


class _Error(_Strict):
    status: Annotated[int, Field(ge=400, le=599)]
    message: str = ""
    retry_after: Annotated[float, Field(ge=0)] | None = None


class _Line(_Strict):
    purpose: Annotated[str, Field(min_length=1)]
    reply: str | dict[str, Any] | None = None
    error: _Error | None = None
    match: str | list[str] = []
    repeat: bool = False
    logprobs: _Distribution | list[_Token] | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> _Line:
        if (self.reply is None) == (self.error is None):
            raise ValueError('a line needs either "reply" or "error"')
        if isinstance(self.logprobs, dict):
            if self.text not in self.logprobs:
                raise ValueError(f'"logprobs" gives no probability for the reply {self.text!r}')
            if sum(self.logprobs.values()) > 1 + 1e-9:
                raise ValueError('the probabilities of "logprobs" add up to more than 1')
        elif self.logprobs is not None and "".join(token.token for token in self.logprobs) != self.text:
            raise ValueError('the tokens of "logprobs" do not spell the reply')
        return self

    @property
    def text(self) -> str:
        return self.reply if isinstance(self.reply, str) else json.dumps(self.reply, ensure_ascii=False)

    def matches(self, request: ChatRequest) -> bool:
        required = [self.match] if isinstance(self.match, str) else self.match
        said = "\n".join(message.content for message in request.messages)
        return self.purpose == request.purpose and all(text in said for text in required)

    def tokens(self, top: int) -> tuple[TokenProbability, ...] | None:
        if self.logprobs is None or top == 0:
            return None
        tokens = self.logprobs
        if isinstance(tokens, dict):
            tokens = [_Token(token=self.text, p=tokens[self.text], top=tokens)]
        return tuple(TokenProbability(each.token, math.log(each.p), _rank(each.top, top)) for each in tokens)


class Scripted:
    """Answers from a JSON Lines file: each request from the first unused line that has its purpose and matches it.

    `reply` is a text, or an object that is sent as JSON. A line answers once, unless it has `"repeat": true`.

        {"purpose": "answer", "match": "capital of France", "reply": "Paris"}
        {"purpose": "verifier", "match": ["Paris", "p1"], "reply": {"support": 0.9, "gap": 0.1}, "repeat": true}
        {"purpose": "verifier", "reply": "yes", "logprobs": {"yes": 0.9, "no": 0.1}}
        {"purpose": "answer", "reply": "New York",
         "logprobs": [{"token": "New", "p": 0.8, "top": {"New": 0.8, "Old": 0.1}}, {"token": " York", "p": 0.9}]}
        {"purpose": "answer", "error": {"status": 429, "retry_after": 2}}

    `match` is one text or a list of texts that must all occur. `logprobs` are probabilities, not logarithms: one
    distribution for a reply of one token, or a list of tokens that spell the reply (in one line of the file).

    Raises:
        SettingsError: The file cannot be read, or a line of it cannot be used.
    """

    def __init__(self, path: Path | str) -> None:
        try:
            content = Path(path).read_bytes()
            text = content.decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            said = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise SettingsError(f"The script {path} cannot be read: {said}.", remedy="Check the file.") from None
        # Only "\n" parts lines: a reply may hold other separators that str.splitlines would cut at.
        numbered = enumerate(text.split("\n"), start=1)
        self._lines = [_parse_line(line, f"{path}, line {number}") for number, line in numbered if line.strip()]
        self._used: set[int] = set()
        self._identity = f"scripted:{hashlib.sha256(content).hexdigest()[:16]}"

    @property
    def identity(self) -> str:
        """`scripted:` and a hash of the file so that an edited script never meets old cache entries."""
        return self._identity

    async def chat(self, request: ChatRequest) -> ChatReply:
        """Return the reply of the first line that matches and is not used up."""
        line = self._find_line(request)
        if line.error is not None:
            error = line.error
            raise status_error(error.status, server="The script", detail=error.message, retry_after=error.retry_after)
        text = cut_at_stop(line.text, request.stop)
        tokens_in, tokens_out = count_prompt(request.messages), count_tokens(text)
        if not text.strip():
            raise EmptyReplyError(
                "The script gives an empty message.",
                remedy="Write a reply if that is not what it is for.",
                wasted_tokens=tokens_in + tokens_out,
            )
        if request.on_text is not None:
            for word in re.finditer(r"\S+\s*", text):
                request.on_text(text[: word.end()])
        tokens = line.tokens(request.top_logprobs)
        if tokens is not None:
            tokens = tokens[: count_pieces([token.token for token in tokens], len(text))]
        return ChatReply(text, tokens_in, tokens_out, seconds=0.0, counted_by=LOCAL_COUNT, tokens=tokens)

    async def aclose(self) -> None:
        """Do nothing: the file is closed already."""

    def _find_line(self, request: ChatRequest) -> _Line:
        # Nothing in here awaits: two requests cannot get the same line.
        for number, line in enumerate(self._lines):
            if number not in self._used and line.matches(request):
                if not line.repeat:
                    self._used.add(number)
                return line
        # Error messages are stored in files that must hold no benchmark text.
        start = " ".join(request.messages[-1].content.split())[:80] if request.messages else ""
        _log.debug("The script has no line for this request: %s", start)
        raise ModelError(
            f'The script has no line left for the purpose "{request.purpose}".',
            remedy='Add a line, or "repeat": true to one that may answer more than once; --debug shows the request.',
        )


def _parse_line(line: str, where: str) -> _Line:
    try:
        return _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        raise SettingsError(
            f"{where}: {field + ': ' if field else ''}{problem}.",
            remedy='A line looks like {"purpose": "answer", "reply": "Paris"}.',
        ) from None


def _rank(distribution: dict[str, float], top: int) -> tuple[tuple[str, float], ...]:
    likeliest = sorted(distribution.items(), key=lambda item: -item[1])[:top]
    return tuple((token, math.log(p)) for token, p in likeliest)
