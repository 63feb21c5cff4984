"""`beliefrag app` and `view`: pages in a browser on this machine, to ask questions and to look at runs and traces."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import (
    Documents,
    FurtherPaths,
    GivenSettings,
    NoOpen,
    argument,
    join_paths,
    option,
    with_settings,
)
from beliefrag.cli.output import print_notice
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.engine.assembly import Assembly
    from beliefrag.record import Progress
    from beliefrag.web.auth import BrowserKey
    from beliefrag.web.page import AskPage
    from beliefrag.web.service import AnswerService
    from beliefrag.web.view import RunSource, TraceSource

# ruff: noqa: PLC0415 - the help does not wait for what only a command needs

FEEDBACK_FILE = Path("feedback.jsonl")
Feedback = Annotated[Path | None, option("FILE", "Where feedback is kept; by default feedback.jsonl.", "--feedback")]
_Port = Annotated[int, option("N", "The port; 0 takes a free one.", "--port", min=0, max=65535)]

_SECONDS = 3_600.0
"""How long a question may take on the page. The person who asked watches it, and can stop it."""
_NAMES_SHOWN = 3
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER")
"""One of these is set where a Linux machine has a screen for a browser."""


@with_settings("model", "base_url", "method", "retriever")
def ask_page(
    further: FurtherPaths = None,
    *,
    documents: Documents,
    given: GivenSettings,
    port: _Port = 8082,
    no_open: NoOpen = False,
    feedback: Feedback = None,
) -> None:
    """Ask questions on a page in the browser, which opens quotes in their documents.

    The page is served on this machine only, and works offline. 'beliefrag calibrate' learns from the feedback given on
    it.

    Example: beliefrag app --docs handbook/
    """
    from beliefrag.cli.ask import open_assembly
    from beliefrag.cli.serve import LimitOptions
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.server import listen, serve
    from beliefrag.web.server_metrics import ServerMetrics
    from beliefrag.web.service import AnswerService

    paths = join_paths(documents.docs, further)
    settings = given.load()
    host = "127.0.0.1"
    # The address comes first: if it is taken, no document was read in vain.
    with listen(host, port) as bound:
        limits = LimitOptions(timeout=_SECONDS, grace=1.0).for_server(settings)
        service = AnswerService(open_assembly(settings, docs=paths, index=documents.index), settings, limits)
        access = PageAccess.for_server(bound, None, command="beliefrag app")
        context = HttpContext(
            service,
            ServerMetrics(service.admission),
            page=make_page(service, feedback, paths, documents.index, show_prompts=True),
            docs=paths,
            index=documents.index,
        )
        server = create_app(context, host=host, credential=access.key)

        def show() -> None:
            open_address("app", access.address, access.address_once, no_open=no_open)
            print_notice(f"app: feedback is kept in {feedback or FEEDBACK_FILE}; the page stays until Ctrl-C.")

        logging.getLogger("beliefrag.web").addHandler(_Notices(logging.WARNING))
        logging.getLogger("beliefrag.web").propagate = False
        serve(server, service, bound, on_listening=show)


class _Notices(logging.Handler):
    """Print why a question failed, in one line. The page itself shows only the kind of error."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        why = ": ".join(str(fields[name]) for name in ("cause", "error") if fields.get(name))
        print_notice(f"warning: {record.getMessage()} failed: {why}" if why else f"warning: {record.getMessage()}")


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


def make_page(
    service: AnswerService,
    feedback: Path | None,
    docs: Sequence[Path] | None,
    index: Path | None,
    *,
    show_prompts: bool,
) -> AskPage:
    """Return the page of a service, named after its documents; trajectories show prompts only if asked to.

    Raises:
        SettingsError: The feedback file cannot be written.
    """
    from beliefrag.web.page import AskPage, FeedbackFile, PageEpisodes
    from beliefrag.web.view import active_thresholds

    names = [path.resolve().name or str(path) for path in [*(docs or ()), *([index] if index else ())]]
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    thresholds = active_thresholds(asdict(service.assembly.parts.thresholds))
    episodes = PageEpisodes(thresholds, show_prompts=show_prompts)
    return AskPage(", ".join(names[:_NAMES_SHOWN]) + more, episodes, FeedbackFile(feedback or FEEDBACK_FILE))


@contextlib.contextmanager
def serve_live_page(assembly: Assembly) -> Iterator[Callable[[Progress], object]]:
    """Serve a page that shows an episode as it happens; return what takes its steps."""
    from beliefrag.web.view import LiveSource, ViewServer, active_thresholds

    source = LiveSource(active_thresholds(asdict(assembly.parts.thresholds)))
    with ViewServer(source) as server:
        open_address("view", server.address, server.address_once)
        yield source.add_event


def view(
    path: Annotated[Path, argument("RUN|TRACE", "The folder of a run, or a trace file.")],
    further: FurtherPaths = None,
    *,
    data: Annotated[
        list[Path] | None,
        option(
            "DIR...",
            "The run's datasets, or a folder of datasets: for questions, gold answers and passages.",
            "--data",
            envvar="BELIEFRAG_DATA",
        ),
    ] = None,
    questions: Annotated[
        Path | None, option("FILE", "Your own questions that the run asked, if they were moved; needs --docs.")
    ] = None,
    docs: Annotated[
        list[Path] | None, option("PATH...", "The documents that the run answered from; needs --questions.")
    ] = None,
    port: _Port = 0,
    no_open: NoOpen = False,
    export: Annotated[Path | None, option("FILE", "Write one episode to this new HTML file, and end.")] = None,
    episode: Annotated[
        int | None, option("N", "Which episode of a run to export: the number in its page's address.", min=0)
    ] = None,
) -> None:
    """Look at a run or a trace in a browser: numbers, episodes, and each decision with what it rests on.

    The page is served on this machine alone, and works offline.

    Example: beliefrag view runs/first --data data
    """
    from beliefrag.bench.own_documents import OwnDocuments
    from beliefrag.cli.output import show_status
    from beliefrag.web.view import RunSource, ViewServer, open_source

    if episode is not None and export is None:
        raise typer.BadParameter("it is only for --export: give --export too", param_hint="--episode")
    if further and not (data or docs):
        raise typer.BadParameter(f"{str(further[0])!r} is unexpected", param_hint="RUN|TRACE")
    if (questions is None) != (not docs):
        raise SettingsError("--questions and --docs go together, and one is missing.", remedy="Give both or neither.")
    more = further or []
    # Values after the first one belong to the option that takes several.
    own = OwnDocuments(questions, (*(docs or ()), *more)) if questions is not None else None
    with show_status("reading"):
        source = open_source(path, data or () if own else [*(data or ()), *more], own)
    if export is None:
        with ViewServer(source, port) as server:
            open_address("view", server.address, server.address_once, no_open=no_open)
            wait_for_interrupt()
        return
    try:
        if isinstance(source, RunSource) and episode is None:
            raise typer.BadParameter("a run has many episodes; name one with --episode", param_hint="--export")
        _export(source, episode or 0, export)
    finally:
        source.close()


def _export(source: RunSource | TraceSource, number: int, file: Path) -> None:
    from beliefrag.web.view import export_page

    page = export_page(source.episode(number), source.prompts(number))
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(page)
    except FileExistsError:
        raise SettingsError(f"The file {file} exists already.", remedy="Name another one.") from None


def open_address(command: str, address: str, address_once: str, *, no_open: bool = False) -> None:
    """Print an address, and open it in a browser unless told not to."""
    print_notice(f"{command}: {address}")
    if not no_open and not _open_browser(address_once):
        print_notice(f"{command}: no browser was found here; open the address yourself.")


def wait_for_interrupt() -> None:
    """Wait for Ctrl-C, which ends a viewer."""
    print_notice("view: the page stays until Ctrl-C.")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def _open_browser(address: str) -> bool:
    import webbrowser

    # Without a screen, a text browser would take over the terminal.
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _SCREENS):
        return False
    return webbrowser.open(address)
