"""The viewer: a run, a trace or an episode that runs now, as pages in a browser on this machine."""

from beliefrag.web.view.export import export_name, export_page
from beliefrag.web.view.schema import ViewError
from beliefrag.web.view.sources import LiveSource, RunSource, TraceSource, open_source
from beliefrag.web.view.view_app import ViewServer

__all__ = [
    "LiveSource",
    "RunSource",
    "TraceSource",
    "ViewError",
    "ViewServer",
    "export_name",
    "export_page",
    "open_source",
]
