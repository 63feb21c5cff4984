"""`beliefrag app`: a page to ask in, in a browser on this machine."""

from __future__ import annotations

import logging
from typing import Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.serve import LimitOptions

__all__ = ["ask_page"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_PORT = 8082
_REQUEST_BYTES = 65_536
_SECONDS = 3_600.0
"""How long a question may take. The person who asked watches it, and can stop it."""


@options.with_option_groups
def ask_page(
    further: options.FurtherPaths = None,
    *,
    documents: options.DocumentOptions,
    search: options.SearchOptions,
    method: options.Method = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Where to listen; 0 takes a free one.")
    ] = _PORT,
    no_open: options.NoOpen = False,
    feedback: options.Feedback = None,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    risk: options.RiskOptions,
    prompts: options.PromptOptions,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Ask questions on a page in the browser, with the quotes that an answer rests on opened in their documents.

    The page is served on this machine alone, and works offline. What you say about answers is kept as labelled
    questions, from which 'beliefrag calibrate' learns.

    Example: beliefrag app --docs handbook/
    """
    from beliefrag.cli.browser_page import open_address
    from beliefrag.cli.opening import open_assembly
    from beliefrag.cli.output import print_notice
    from beliefrag.cli.page_access import PageAccess, make_page, open_feedback
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.server import listen, serve
    from beliefrag.web.server_metrics import ServerMetrics
    from beliefrag.web.service import AnswerService

    paths = options.join_docs(documents.docs, further)
    settings = options.read_settings(search, model, calibration, risk, prompts, config=config, method=method)
    kept = open_feedback(feedback)
    host = "127.0.0.1"
    # The address comes first: if it is taken, no document was read in vain.
    with listen(host, port) as bound:
        limits = LimitOptions(timeout=_SECONDS).make_limits(settings, grace=1.0, request_bytes=_REQUEST_BYTES)
        service = AnswerService(open_assembly(settings, docs=paths, index=documents.index), settings, limits)
        access = PageAccess.for_server(bound, None, command="beliefrag app")
        context = HttpContext(
            service,
            ServerMetrics(service.admission),
            page=make_page(service, kept, paths, documents.index, show_prompts=True),
            docs=paths,
            index=documents.index,
        )
        server = create_app(context, host=host, credential=access.key)

        def show() -> None:
            open_address("app", access.address, access.address_once, no_open=no_open)
            print_notice(f"app: feedback is kept in {kept.path}; the page stays until Ctrl-C.")

        logging.getLogger("beliefrag.web").addHandler(_Notices(logging.WARNING))
        logging.getLogger("beliefrag.web").propagate = False
        serve(server, service, bound, on_listening=show)


class _Notices(logging.Handler):
    """Says in one line on the terminal what went wrong with a question. The page itself tells only the kind."""

    def emit(self, record: logging.LogRecord) -> None:
        from beliefrag.cli.output import print_notice

        fields = getattr(record, "fields", {})
        why = ": ".join(str(fields[name]) for name in ("cause", "error") if fields.get(name))
        print_notice(f"warning: {record.getMessage()} failed: {why}" if why else f"warning: {record.getMessage()}")
