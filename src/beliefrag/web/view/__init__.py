"""The viewer: a run, a trace or an episode under way as pages in a browser, on this machine alone."""

from __future__ import annotations

from beliefrag.web.view.errors import ViewError
from beliefrag.web.view.export import export_name, export_page
from beliefrag.web.view.recorded import thresholds_in_force
from beliefrag.web.view.server import ViewServer
from beliefrag.web.view.sources import LiveSource, RunSource, TraceSource, open_source

__all__ = [
    "LiveSource",
    "RunSource",
    "TraceSource",
    "ViewError",
    "ViewServer",
    "export_name",
    "export_page",
    "open_source",
    "thresholds_in_force",
]
