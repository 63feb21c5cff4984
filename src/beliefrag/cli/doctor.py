"""`beliefrag doctor`: checks everything that an answer depends on, and says how to repair what does not work."""

from __future__ import annotations

import typer

from beliefrag.cli import options

__all__ = ["doctor"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@options.with_option_groups
def doctor(
    further: options.FurtherPaths = None,
    *,
    documents: options.DocumentOptions,
    model: options.ModelOptions,
    calibration: options.CalibrationOptions,
    verifier: options.Verifier = None,
    retriever: options.Retriever = None,
    prompts: options.Prompts = None,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Check everything that an answer depends on, and say how to repair what does not work.

    Checks the installation, the cache folder, the settings, the model (with calls of one token), the retriever, the
    calibration, the recorded replies and, if you name them, documents and an index. It changes nothing, and ends with 1
    if something does not work.

    Example: beliefrag doctor --index handbook.index
    """
    from beliefrag.cli.exit_codes import FAILED
    from beliefrag.cli.output import print_table, show_status
    from beliefrag.doctor import CheckState, check_everything

    typed = model.as_settings() | calibration.as_settings()
    typed |= {"verifier": verifier, "retriever": retriever, "prompts": prompts}
    with show_status("checking everything"):
        docs = options.join_docs(documents.docs, further) or []
        findings = check_everything(typed, config=config, docs=docs, index=documents.index)
    rows = [(finding.state, finding.name, " ".join((finding.detail, finding.remedy)).strip()) for finding in findings]
    print_table(("", "what", "state, and what to do"), rows, style=lambda state: _STYLES.get(state, ""))
    if any(finding.state is CheckState.PROBLEM for finding in findings):
        raise typer.Exit(FAILED)
