"""`beliefrag serve`: answer other programs, over HTTP (`http`) or as tools for agents (`mcp`)."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from pydantic import Field

from beliefrag.cli import options
from beliefrag.cli.options import GivenSettings, flag, join_paths, option, with_settings
from beliefrag.cli.output import print_notice
from beliefrag.errors import SettingsError
from beliefrag.feedback import FEEDBACK

if TYPE_CHECKING:
    from beliefrag.settings import Settings
    from beliefrag.web.limits import ServerLimits
    from beliefrag.web.service import AnswerService

app = typer.Typer(help="Answer other programs over the network.", no_args_is_help=True)

_LOOPBACK = "127.0.0.1"
_EMBEDDED_TIMEOUT = 900.0
"""Seconds for a question if the model runs on this machine's processor, which takes minutes for a hard one."""
_PAGE_SECONDS = 3_600.0
"""How long a question may take on the page. The person who asked watches it, and can stop it."""
_NAMES_SHOWN = 3

_Host = Annotated[str | None, option("ADDRESS", f"The address to listen on; {_LOOPBACK} by default.")]
_Port = Annotated[int | None, option("N", "8080 by default, for mcp 8081; 0 takes a free one.", min=0, max=65535)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may call the server."""

    token_file: Annotated[
        Path | None, option("FILE", "A file with the clients' token; or set BELIEFRAG_TOKEN.", "--token-file")
    ] = None
    allowed_host: Annotated[
        list[str] | None, option("NAME", "Another host name that requests may use.", "--allowed-host")
    ] = None


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
        embedded = settings.is_embedded
        given["concurrency"] = self.concurrency or (1 if embedded else 4)
        given["timeout"] = self.timeout or (_EMBEDDED_TIMEOUT if embedded else usual_timeout)
        return ServerLimits(**given, budget=budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """How the HTTP server presents itself."""

    section: ClassVar[str] = "serve"

    otel: Annotated[bool, flag("--otel", "Send OpenTelemetry traces, as the OTEL_* variables say.")] = False
    otel_text: Annotated[bool, flag("--otel-text", "Include questions, passages, prompts and replies in traces.")] = (
        False
    )
    model_name: str = "beliefrag"
    """The model name at the OpenAI-compatible addresses."""


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
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.request_log import json_log
    from beliefrag.web.server import listen, serve

    if how.otel_text and not how.otel:
        raise typer.BadParameter("it needs --otel", param_hint="--otel-text")
    paths = join_paths(documents.docs, further)
    settings = given.load()
    address = host or _LOOPBACK
    readers = _read_readers(settings, access, address)
    token = None if readers else read_token(access.token_file, address)
    with contextlib.ExitStack() as stack:
        stack.enter_context(json_log(sys.stderr))
        # The address comes first: if it is taken, no document was read in vain.
        bound = stack.enter_context(listen(address, 8080 if port is None else port))
        make_observer = None
        if how.otel:
            from beliefrag.integrations.otel import open_tracing

            traces = open_tracing(text=how.otel_text)
            stack.callback(traces.close)
            make_observer = traces.episode
        service = _open_service(settings, paths, documents, limits.for_server(settings))
        context = HttpContext(
            service, model_name=how.model_name, make_observer=make_observer, docs=paths, index=documents.index
        )
        names = access.allowed_host or ()
        server = create_app(context, token=token, host=address, allowed_hosts=names, readers=readers)
        serve(server, service, bound)


@with_settings("model", "base_url", "method", "retriever")
def ask_page(
    further: options.FurtherPaths = None,
    *,
    documents: options.Documents,
    given: GivenSettings,
    port: Annotated[int, option("N", "The port; 0 takes a free one.", min=0, max=65535)] = 8082,
    no_open: options.NoOpen = False,
    feedback: Annotated[Path, option("FILE", "The file for feedback.", "--feedback")] = FEEDBACK,
) -> None:
    """Ask questions on a page in the browser, which opens quotes in their documents.

    Example: beliefrag app --docs handbook/
    """
    from beliefrag.cli.view import open_address
    from beliefrag.web.auth import BrowserKey
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.page import AskPage, FeedbackFile, PageEpisodes
    from beliefrag.web.server import listen, serve

    paths = join_paths(documents.docs, further)
    settings = given.load()
    limits = LimitOptions(timeout=_PAGE_SECONDS, grace=1.0).for_server(settings)
    page = AskPage(name_documents(paths, documents.index), PageEpisodes(), FeedbackFile(feedback))

    def show() -> None:
        open_address("app", key, no_open=no_open)
        print_notice(f"app: feedback is kept in {feedback}; press Ctrl-C to stop.")

    with _print_failures(), listen(_LOOPBACK, port) as bound:
        key = BrowserKey(bound.getsockname()[1], "beliefrag app", may_send=True)
        service = _open_service(settings, paths, documents, limits, has_tokens=False)
        context = HttpContext(service, docs=paths, index=documents.index, page=page)
        serve(create_app(context, browser=key), service, bound, on_listening=show)


@contextlib.contextmanager
def _print_failures() -> Iterator[None]:
    """Print why a question failed, while it is entered. The page itself shows only the kind of error."""
    log, notices = logging.getLogger("beliefrag.web"), _Notices(logging.WARNING)
    log.addHandler(notices)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(notices)
        log.propagate = True


class _Notices(logging.Handler):
    """Print why a question failed, in one line. The page itself shows only the kind of error."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        why = ": ".join(str(fields[name]) for name in ("cause", "error") if fields.get(name))
        print_notice(f"warning: {record.getMessage()} failed: {why}" if why else f"warning: {record.getMessage()}")


def _open_service(
    settings: Settings,
    docs: list[Path] | None,
    documents: options.Documents,
    limits: ServerLimits,
    *,
    has_tokens: bool = True,
) -> AnswerService:
    """Open the model and the documents; where the settings have rights, once for each set of groups."""
    from beliefrag.cli.ask import open_assembly
    from beliefrag.cli.output import show_index_progress
    from beliefrag.opening import assemble_by_groups
    from beliefrag.web.service import AnswerService

    index, where = documents.index, documents.where
    if not settings.access.tokens:
        service = AnswerService(open_assembly(settings, docs=docs, index=index, where=where), settings, limits)
        service.follow(docs, index)
        return service
    if not has_tokens:
        raise SettingsError(
            "The settings give rights to tokens ([[access.tokens]]), and this server has none.",
            remedy="Use 'beliefrag serve http' or 'serve mcp --http', or a settings file without them.",
        )
    with show_index_progress() as progress:
        held = assemble_by_groups(settings, docs=docs, index=index, progress=progress, where=where)
    service = AnswerService(held, settings, limits)
    service.follow(docs, index)
    return service


def _read_readers(settings: Settings, access: Access, host: str) -> dict[str, frozenset[str]] | None:
    from beliefrag.web.auth import read_readers

    if settings.access.tokens and access.token_file:
        raise SettingsError("The settings name the tokens of clients.", remedy="Leave --token-file out.")
    return read_readers(settings.access.tokens, host)


def name_documents(docs: Sequence[Path] | None, index: Path | None) -> str:
    """Return the title of a page on these documents."""
    names = [path.resolve().name or str(path) for path in [*(docs or ()), *([index] if index else ())]]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


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
    open_service = functools.partial(
        _open_service, settings, paths, documents, fitting.for_server(settings, usual_timeout=300.0)
    )
    if not over_http:
        service = open_service(has_tokens=False)
        with json_log(sys.stderr):
            serve_mcp_stdio(service)
        return

    from beliefrag.web.mcp.mcp_app import create_mcp_app
    from beliefrag.web.server import listen, serve

    address = host or _LOOPBACK
    readers = _read_readers(settings, access, address)
    token = None if readers else read_token(access.token_file, address)
    # The address comes first: if it is taken, no document was read in vain.
    with listen(address, 8081 if port is None else port) as bound, json_log(sys.stderr):
        service = open_service()
        names = access.allowed_host or ()
        tools = create_mcp_app(service, token=token, host=address, allowed_hosts=names, readers=readers)
        serve(tools, service, bound)
