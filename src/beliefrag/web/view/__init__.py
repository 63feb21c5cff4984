"""The viewer: a run or a trace as pages in a browser on this machine."""

from beliefrag.web.view.schema import ViewError
from beliefrag.web.view.sources import RunSource, TraceSource, open_source
from beliefrag.web.view.view_app import ViewServer

__all__ = [
    "RunSource",
    "TraceSource",
    "ViewError",
    "ViewServer",
    "open_source",
]
