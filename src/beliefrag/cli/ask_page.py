"""`beliefrag app`: a page to ask in, in a browser on this machine."""

from __future__ import annotations

import logging

from beliefrag.cli.options import Documents, FurtherPaths, GivenSettings, NoOpen, Port, join_paths, with_settings
from beliefrag.cli.serve import Feedback, LimitOptions

__all__ = ["ask_page"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

_SECONDS = 3_600.0
"""How long a question may take. The person who asked watches it, and can stop it."""


@with_settings("model", "base_url", "method", "retriever")
def ask_page(
    further: FurtherPaths = None,
    *,
    documents: Documents,
    given: GivenSettings,
    port: Port = 8082,
    no_open: NoOpen = False,
    feedback: Feedback = None,
) -> None:
    """Ask questions on a page in the browser, which opens quotes in their documents.

    The page is served on this machine only, and works offline. 'beliefrag calibrate' learns from the feedback given on
    it.

    Example: beliefrag app --docs handbook/
    """
    from beliefrag.cli.browser_page import FEEDBACK_FILE, PageAccess, make_page, open_address
    from beliefrag.cli.episode_run import open_assembly
    from beliefrag.cli.output import print_notice
    from beliefrag.web.http import HttpContext, create_app
    from beliefrag.web.monitoring import ServerMetrics
    from beliefrag.web.server import listen, serve
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
        server = create_app(context, host=host, browser=access.key, programs=False)

        def show() -> None:
            open_address("app", access.address, access.address_once, no_open=no_open)
            print_notice(f"app: feedback is kept in {feedback or FEEDBACK_FILE}; the page stays until Ctrl-C.")

        logging.getLogger("beliefrag.web").addHandler(_Notices(logging.WARNING))
        logging.getLogger("beliefrag.web").propagate = False
        serve(server, service, bound, on_listening=show)


class _Notices(logging.Handler):
    """Print why a question failed, in one line. The page itself shows only the kind of error."""

    def emit(self, record: logging.LogRecord) -> None:
        from beliefrag.cli.output import print_notice

        fields = getattr(record, "fields", {})
        why = ": ".join(str(fields[name]) for name in ("cause", "error") if fields.get(name))
        print_notice(f"warning: {record.getMessage()} failed: {why}" if why else f"warning: {record.getMessage()}")
