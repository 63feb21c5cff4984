"""`beliefrag doctor`: check everything that an answer depends on, and say how to fix what does not work."""

from __future__ import annotations

import typer

from beliefrag.cli.options import Documents, FurtherPaths, GivenSettings, join_paths, with_settings

__all__ = ["doctor"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@with_settings("model", "base_url", "retriever", "borrow")
def doctor(
    further: FurtherPaths = None,
    *,
    documents: Documents,
    given: GivenSettings,
) -> None:
    """Check everything that an answer depends on, and say how to fix what does not work.

    Checks the installation, the cache folder, the settings, the model (with calls of one token), the retriever, the
    calibration, the recorded replies and, if named, documents and an index. Changes nothing; exits with 1 on a problem.

    Example: beliefrag doctor --index handbook.index
    """
    from beliefrag.cli.output import FAILED, print_table, show_status
    from beliefrag.doctor import CheckState, check_everything

    with show_status("checking everything"):
        docs = join_paths(documents.docs, further) or []
        findings = check_everything(given.values, config=given.config, docs=docs, index=documents.index)
    rows = [(finding.state, finding.name, " ".join((finding.detail, finding.remedy)).strip()) for finding in findings]
    print_table(("", "what", "state, and what to do"), rows, style=lambda state: _STYLES.get(state, ""))
    if any(finding.state is CheckState.PROBLEM for finding in findings):
        raise typer.Exit(FAILED)
