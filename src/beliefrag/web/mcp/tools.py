"""The two tools: `ask` plays an episode, `search` makes one search."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams, CallToolResult, Tool, ToolAnnotations
from pydantic import BaseModel

from beliefrag.errors import BeliefRAGError
from beliefrag.events import CallStarted, Decided, Event, Finished
from beliefrag.result import Result
from beliefrag.web.http.admission import Gate, Overfull
from beliefrag.web.http.note import Note
from beliefrag.web.http.problems import Problem
from beliefrag.web.http.request_settings import assembly_for
from beliefrag.web.http.running import ClientGone, Running
from beliefrag.web.http.service import Service
from beliefrag.web.mcp.arguments import AskArguments, SearchArguments, input_schema, read
from beliefrag.web.mcp.disconnect import departure
from beliefrag.web.mcp.replies import AskReply, SearchReply, as_error, as_result, ask_reply, search_reply

__all__ = ["Tools"]

_log = logging.getLogger(__name__)
_Context = ServerRequestContext[Any, Any]

_ASK = (
    "Answers a question from the documents of this server. It searches as much as the question needs, says how sure it "
    "is and why it stopped, names its sources, and declines (outcome 'abstained', answer null) when the documents do "
    "not hold the answer. Do not fill a declined answer in from memory without saying so."
)
_SEARCH = (
    "Finds passages in the documents of this server by their words, best first, without asking a model. For looking "
    "around; 'ask' searches by itself."
)


class Tools:
    """What an agent can call.

    Args:
        service: What answers, with its limits.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        # Searches take milliseconds, episodes seconds or minutes: neither should wait for the other.
        self._searches = Gate(service.limits.concurrency, service.limits.queue, longest=service.limits.timeout)
        self._tools: dict[str, Callable[[_Context, CallToolRequestParams, Note], Awaitable[BaseModel]]] = {
            "ask": self._ask,
            "search": self._search,
        }

    def listed(self) -> list[Tool]:
        """The tools with their schemas."""
        limits = self._service.limits
        harmless = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return [
            Tool(
                name=name,
                title=title,
                description=about,
                input_schema=input_schema(arguments, limits),
                output_schema=reply.model_json_schema(mode="serialization"),
                annotations=harmless,
            )
            for name, title, about, arguments, reply in (
                ("ask", "Ask the documents", _ASK, AskArguments, AskReply),
                ("search", "Search the documents", _SEARCH, SearchArguments, SearchReply),
            )
        ]

    async def call(self, context: _Context, params: CallToolRequestParams) -> CallToolResult:
        """Calls a tool. What goes wrong is told as an error of the tool, in one line; declining is no error.

        Raises:
            MCPError: There is no such tool.
        """
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, "There is no such tool: this server has 'ask' and 'search'.")
        note, began = Note(uuid.uuid4().hex), time.perf_counter()
        try:
            return as_result(await tool(context, params, note))
        except Problem as problem:
            # An episode that was played and failed has an outcome; it was not refused.
            if note.outcome is None:
                note.refused = problem.code
            return as_error(problem)
        except BeliefRAGError as error:
            note.refused = type(error).__name__
            words = self._service.words
            return as_error(Problem(503, "failed", words(error.message), remedy=words(error.remedy)))
        except ClientGone:
            note.gone = True
            return as_error(Problem(499, "gone", "The client left."))
        except Exception as error:
            note.refused = type(error).__name__
            # The message of an unforeseen error can quote anything; the traceback is for --debug.
            _log.debug("A call broke here.", exc_info=True)
            return as_error(Problem(500, "internal", f"Internal error, {type(error).__name__}."))
        finally:
            _write(params.name, note, time.perf_counter() - began)

    async def _ask(self, context: _Context, params: CallToolRequestParams, note: Note) -> AskReply:
        service = self._service
        arguments = read(AskArguments, params.arguments, service.limits)
        assembly = assembly_for(service, arguments.wishes())
        seen: list[Event] = []
        play = Running(
            lambda tell: service.play(arguments.question, assembly, [note], tell), departure(context.request)
        )
        told = 0
        async with play as running:
            while not (seen and isinstance(seen[-1], Finished)):
                seen.append(await running.next())
                if message := _progress(seen[-1]):
                    told += 1
                    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        await context.session.report_progress(told, message=message)
        return ask_reply(Result.of(seen), service)

    async def _search(self, context: _Context, params: CallToolRequestParams, note: Note) -> SearchReply:
        limits = self._service.limits
        arguments = read(SearchArguments, params.arguments, limits)
        retriever = self._service.assembly.harness.retriever
        try:
            async with asyncio.timeout(limits.timeout), self._searches.place():
                hits = await asyncio.to_thread(retriever.search, arguments.query, arguments.k)
        except Overfull as full:
            raise Problem(429, "busy", "Too many searches.", remedy=f"Search in {full.retry_after} s.") from None
        except TimeoutError:
            raise Problem(504, "timeout", f"Nothing was found within {limits.timeout:g} seconds.") from None
        note.outcome = "searched"
        return search_reply(hits[: arguments.k])


def _progress(event: Event) -> str | None:
    """One line about what it does now, in words of ours: nothing of a passage or a reply is in it."""
    match event:
        case Decided():
            return f"{event.decision.action.value}: {event.decision.reason}"
        case CallStarted():
            return f"asking the model ({event.purpose.replace('_', ' ')})"
    return None


def _write(tool: str, note: Note, seconds: float) -> None:
    fields: dict[str, Any] = {"request_id": note.request_id, "tool": tool, "ms": round(1000 * seconds, 1)}
    fields |= {"outcome": "gone" if note.gone else note.outcome or "refused"}
    if note.refused is not None:
        fields["refused"] = note.refused
    if note.cause is not None:
        fields["cause"] = note.cause
    if note.calls:
        fields |= {"calls": note.calls, "tokens_in": note.tokens_in, "tokens_out": note.tokens_out}
    _log.info("call", extra={"fields": fields})
