"""`beliefrag serve`: answer other programs, over HTTP (`http`) or as tools for agents (`mcp`)."""

from __future__ import annotations

import contextlib
import functools
import logging
import secrets
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer
from pydantic import Field

from beliefrag.cli import options
from beliefrag.cli.options import GivenSettings, flag, join_paths, option, with_settings
from beliefrag.cli.output import print_notice

if TYPE_CHECKING:
    from beliefrag.settings import Settings
    from beliefrag.web.auth import BrowserKey
    from beliefrag.web.limits import ServerLimits
    from beliefrag.web.page import AskPage
    from beliefrag.web.service import AnswerService

app = typer.Typer(help="Answer other programs over the network.", no_args_is_help=True)

_LOOPBACK = "127.0.0.1"
_EMBEDDED_TIMEOUT = 900.0
"""Seconds for a question if the model runs on this machine's processor, which takes minutes for a hard one."""
_PAGE_SECONDS = 3_600.0
"""How long a question may take on the page. The person who asked watches it, and can stop it."""
_NAMES_SHOWN = 3
FEEDBACK_FILE = Path("feedback.jsonl")

Feedback = Annotated[Path | None, option("FILE", "Where feedback is kept; by default feedback.jsonl.", "--feedback")]
_Host = Annotated[str | None, option("ADDRESS", f"Where to listen; {_LOOPBACK} by default.")]
_Port = Annotated[int | None, option("N", "8080 by default, for mcp 8081; 0 takes a free one.", min=0, max=65535)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may call the server."""

    token_file: Annotated[Path | None, option("FILE", "The token of clients, or BELIEFRAG_TOKEN.", "--token-file")] = (
        None
    )
    allowed_host: Annotated[list[str] | None, option("NAME", "Another name of the server.", "--allowed-host")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """How much the server does at a time, and for one question."""

    section: ClassVar[str] = "limits"
    concurrency: Annotated[int | None, Field(ge=1)] = None
    """Questions at a time; by default 1 for a model on this machine, which answers one call at a time, else 4."""
    queue: Annotated[int, Field(ge=0)] = 16
    """How many questions may wait; more are refused."""
    timeout: Annotated[float | None, Field(ge=0.1)] = None
    """Seconds for a question; the wait before it does not count."""
    grace: Annotated[float, Field(ge=0)] = 30.0
    """Seconds that running questions have after SIGTERM."""
    question_chars: Annotated[int, Field(ge=1)] = 4_000
    request_bytes: Annotated[int, Field(ge=1)] = 65_536
    connections: Annotated[int, Field(ge=1)] = 1_000
    connections_per_client: Annotated[int, Field(ge=1)] = 256
    tokens: Annotated[int | None, Field(ge=1)] = None
    """The most tokens before the final answer, whatever a request asks for; by default the setting."""
    rounds: Annotated[int | None, Field(ge=0)] = None
    """The most searches, whatever a request asks for; by default the setting."""

    def for_server(self, settings: Settings, *, usual_timeout: float = 120.0) -> ServerLimits:
        """Return the limits of a server; `usual_timeout` is for a question to a model with a server of its own."""
        from beliefrag.web.limits import ServerLimits

        given = asdict(self)
        asked = {name: given.pop(name) for name in ("tokens", "rounds")}
        budget = replace(settings.budget, **{name: value for name, value in asked.items() if value is not None})
        embedded = settings.model.startswith("local:")
        given["concurrency"] = self.concurrency or (1 if embedded else 4)
        given["timeout"] = self.timeout or (_EMBEDDED_TIMEOUT if embedded else usual_timeout)
        return ServerLimits(**given, budget=budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How the HTTP server presents itself."""

    section: ClassVar[str] = "serve"

    page: Annotated[bool, flag("--page", "Serve the page of 'beliefrag app' too; its address is printed.")] = False
    feedback: Feedback = None
    otel: Annotated[bool, flag("--otel", "Send OpenTelemetry traces, as the OTEL_* variables say.")] = False
    otel_text: Annotated[bool, flag("--otel-text", "Let traces hold questions, passages, prompts and replies.")] = False
    model_name: str = "beliefrag"
    """The model name at the OpenAI-compatible addresses."""
    earlier_turns: Literal["refuse", "ignore"] = "refuse"
    """What to do with the earlier turns of a chat: each question is answered alone."""
    show_prompts: bool = False
    """Whether streamed events include prompts and replies."""


@app.command()
@with_settings("model", "base_url", "method")
def http(
    further: options.FurtherPaths = None,
    *,
    documents: options.Documents,
    given: GivenSettings,
    host: _Host = None,
    port: _Port = None,
    access: Access,
    how: HttpOptions,
    limits: LimitOptions,
) -> None:
    """Answer questions over HTTP: /v1/ask, and /v1/chat/completions for OpenAI clients.

    Example: beliefrag serve http --docs handbook/
    """
    from beliefrag.web.auth import read_token
    from beliefrag.web.request_log import json_log

    if how.feedback is not None and not how.page:
        raise typer.BadParameter("it needs --page", param_hint="--feedback")
    if how.otel_text and not how.otel:
        raise typer.BadParameter("it needs --otel", param_hint="--otel-text")
    paths = join_paths(documents.docs, further)
    settings = given.load()
    address = host or _LOOPBACK
    token = read_token(access.token_file, address)
    served = _Served(settings, paths, documents.index, limits.for_server(settings), how)
    port = 8080 if port is None else port
    with json_log(sys.stderr):
        _serve_http(served, address, port, token=token, allowed_hosts=access.allowed_host or ())


@with_settings("model", "base_url", "method", "retriever")
def ask_page(
    further: options.FurtherPaths = None,
    *,
    documents: options.Documents,
    given: GivenSettings,
    port: Annotated[int, option("N", "The port; 0 takes a free one.", min=0, max=65535)] = 8082,
    no_open: options.NoOpen = False,
    feedback: Feedback = None,
) -> None:
    """Ask questions on a page in the browser, which opens quotes in their documents.

    Example: beliefrag app --docs handbook/
    """
    from beliefrag.cli.view import open_address

    paths = join_paths(documents.docs, further)
    settings = given.load()
    limits = LimitOptions(timeout=_PAGE_SECONDS, grace=1.0).for_server(settings)
    how = HttpOptions(page=True, feedback=feedback, show_prompts=True)

    def show(access: PageAccess) -> None:
        open_address("app", access.address, access.address_once, no_open=no_open)
        print_notice(f"app: feedback is kept in {feedback or FEEDBACK_FILE}; the page stays until Ctrl-C.")

    log, notices = logging.getLogger("beliefrag.web"), _Notices(logging.WARNING)
    log.addHandler(notices)
    log.propagate = False
    try:
        _serve_http(_Served(settings, paths, documents.index, limits, how), _LOOPBACK, port, show_page=show)
    finally:
        log.removeHandler(notices)
        log.propagate = True


class _Notices(logging.Handler):
    """Print why a question failed, in one line. The page itself shows only the kind of error."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        why = ": ".join(str(fields[name]) for name in ("cause", "error") if fields.get(name))
        print_notice(f"warning: {record.getMessage()} failed: {why}" if why else f"warning: {record.getMessage()}")


@dataclass(frozen=True, slots=True)
class _Served:
    """What a server answers from, and how."""

    settings: Settings
    docs: list[Path] | None
    index: Path | None
    limits: ServerLimits
    how: HttpOptions = HttpOptions()

    def open(self) -> AnswerService:
        """Open the model and the documents."""
        from beliefrag.cli.ask import open_assembly
        from beliefrag.web.service import AnswerService

        return AnswerService(open_assembly(self.settings, docs=self.docs, index=self.index), self.settings, self.limits)


def _serve_http(
    served: _Served,
    host: str,
    port: int,
    *,
    token: str | None = None,
    allowed_hosts: Sequence[str] = (),
    show_page: Callable[[PageAccess], None] | None = None,
) -> None:
    """Serve until a signal. With `show_page` there is nothing but the page, for the person at this machine."""
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.server import listen, serve

    how = served.how
    with contextlib.ExitStack() as stack:
        # The address comes first: if it is taken, no document was read in vain.
        bound = stack.enter_context(listen(host, port))
        traces = page = browser = on_listening = None
        if how.otel:
            from beliefrag.integrations.otel import open_tracing

            traces = open_tracing(text=how.otel_text)
            stack.callback(traces.close)
        service = served.open()
        if how.page:
            command = "beliefrag app" if show_page else "beliefrag serve http --page"
            access = PageAccess.for_server(bound, token, command=command)
            page = make_page(how.feedback, served.docs, served.index, show_prompts=how.show_prompts)
            browser = access.key
            on_listening = functools.partial(show_page or _log_page, access)
        context = HttpContext(
            service,
            page=page,
            model_name=how.model_name,
            earlier_turns=how.earlier_turns,
            show_prompts=how.show_prompts and not show_page,
            make_observer=traces.episode if traces is not None else None,
            docs=served.docs,
            index=served.index,
        )
        server = create_app(
            context,
            token=token,
            host=host,
            allowed_hosts=allowed_hosts,
            browser=browser,
            programs=show_page is None,
        )
        serve(server, service, bound, on_listening=on_listening)


@dataclass(frozen=True, slots=True)
class PageAccess:
    """The key of a page, and the addresses that hold it."""

    key: BrowserKey
    address: str
    address_once: str
    """With a key that works once, for a command line that other users can read."""

    @classmethod
    def for_server(cls, bound: socket.socket, token: str | None, *, command: str) -> PageAccess:
        """Return the access to a server that listens on a socket; the server's token is the key if it has one."""
        from beliefrag.web.auth import BrowserKey

        host, port = bound.getsockname()[:2]
        given = token or secrets.token_urlsafe(24)
        once = secrets.token_urlsafe(24)
        base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        # The token of a server belongs to its operator and is never printed.
        shown = "TOKEN" if token else given
        key = BrowserKey(given, once, port, command=command, may_send=True)
        return cls(key, f"{base}/?token={shown}", f"{base}/?token={once}")


def make_page(feedback: Path | None, docs: Sequence[Path] | None, index: Path | None, *, show_prompts: bool) -> AskPage:
    """Return the page of a server, named after its documents."""
    from beliefrag.web.page import AskPage, FeedbackFile, PageEpisodes

    names = [path.resolve().name or str(path) for path in [*(docs or ()), *([index] if index else ())]]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    episodes = PageEpisodes(show_prompts=show_prompts)
    return AskPage(", ".join(names[:_NAMES_SHOWN]) + more, episodes, FeedbackFile(feedback or FEEDBACK_FILE))


def _log_page(access: PageAccess) -> None:
    # The servers' own logger so that their log holds the address of the page too.
    logging.getLogger("beliefrag.web.page").info("page", extra={"fields": {"page": access.address}})


@app.command()
@with_settings("model", "base_url", "method")
def mcp(
    further: options.FurtherPaths = None,
    *,
    documents: options.Documents,
    given: GivenSettings,
    over_http: Annotated[bool, flag("--http", "Serve over HTTP, at /mcp; by default over standard input.")] = False,
    host: _Host = None,
    port: _Port = None,
    access: Access,
    limits: LimitOptions,
) -> None:
    """Give agents two tools over the Model Context Protocol: ask, and search.

    Example: beliefrag serve mcp --docs handbook/
    """
    from beliefrag.web.auth import read_token
    from beliefrag.web.mcp.mcp_stdio import serve_mcp_stdio
    from beliefrag.web.request_log import json_log

    network: dict[str, object] = {"--host": host, "--port": port, "--token-file": access.token_file}
    unused = [name for name, value in (network | {"--allowed-host": access.allowed_host}).items() if value is not None]
    if unused and not over_http:
        raise typer.BadParameter("it needs --http", param_hint=unused[0])
    paths = join_paths(documents.docs, further)
    settings = given.load()
    # A character takes at most twelve bytes of JSON; the rest is for what the protocol puts around it.
    grace = limits.grace if over_http else 0.0
    fitting = replace(limits, request_bytes=12 * limits.question_chars + 16_384, grace=grace)
    served = _Served(settings, paths, documents.index, fitting.for_server(settings, usual_timeout=300.0))
    if not over_http:
        service = served.open()
        with json_log(sys.stderr):
            serve_mcp_stdio(service)
        return

    from beliefrag.web.mcp.mcp_app import create_mcp_app
    from beliefrag.web.server import listen, serve

    address = host or _LOOPBACK
    token = read_token(access.token_file, address)
    # The address comes first: if it is taken, no document was read in vain.
    with listen(address, 8081 if port is None else port) as bound:
        service = served.open()
        with json_log(sys.stderr):
            tools = create_mcp_app(service, token=token, host=address, allowed_hosts=access.allowed_host or ())
            serve(tools, service, bound)
