"""`beliefrag calibrate auto`: calibrates a model on questions that it makes from one's own documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import FurtherPaths, GivenSettings, OwnDocs, Yes, flag, join_paths, with_settings

if TYPE_CHECKING:
    from beliefrag.calibrate import AutoPlan

__all__ = ["calibrate_auto"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415


@with_settings("model", "base_url", "method")
def calibrate_auto(
    further: FurtherPaths = None,
    *,
    docs: OwnDocs = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the calibration.")] = Path(
        "calibration.json"
    ),
    n: Annotated[int, typer.Option("--n", "-n", metavar="N", min=10, help="How many questions to make.")] = 120,
    reads_only: Annotated[bool, flag("--reads-only", "With lean: read once, and fit no value of searches.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed asks about other passages.")] = 0,
    dry_run: Annotated[bool, flag("--dry-run", "Print the estimate, and end.")] = False,
    yes: Yes = False,
    given: GivenSettings,
) -> None:
    """Make questions from your documents, ask them, and fit a calibration for your model to how it did.

    Some questions need one passage, some need two, and some have no answer, because their passage is taken out. Its
    quality is measured on questions that nothing was fitted on. What it takes is said beforehand.

    Example: beliefrag calibrate auto --docs handbook/ --model my-model --base-url http://localhost:8000/v1
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import print_notice, print_table
    from beliefrag.errors import SettingsError

    paths = join_paths(docs, further)
    if not paths:
        raise SettingsError("Needs documents to make questions from.", remedy="Name them with --docs.")
    settings = given.load()

    def confirm(plan: AutoPlan) -> bool:
        print_notice(f"ahead, an estimate: {plan}")
        return not dry_run and _is_confirmed(yes)

    with _ProgressLines() as lines:
        found = calibrate.auto(
            paths,
            out=out,
            n=n,
            searches=not reads_only,
            seed=seed,
            settings=settings,
            confirm=confirm,
            progress=lambda done, wanted: lines.tell(done, wanted, "questions made"),
            run_progress=lambda run: lines.tell(run.done, run.plan.left, "questions asked"),
        )
    if found is None:
        print_notice("nothing was asked")
        return
    for table in found.tables:
        typer.echo(table.title)
        print_table(table.headings, table.texts)
        typer.echo("")
    for warning in found.warnings:
        print_notice(f"warning: {warning}")
    for path in found.files:
        print_notice(f"written: {path}")
    print_notice(f"use it with --set calibration={out}")


def _is_confirmed(yes: bool) -> bool:
    from beliefrag.cli.output import can_confirm

    if yes or not can_confirm():
        return True
    return typer.confirm("Ask the model?", default=True, err=True)


class _ProgressLines:
    """Prints how many there are, every tenth of the way, and something at least every few seconds."""

    def __init__(self) -> None:
        from beliefrag.cli.output import Heartbeat

        self._what = ""
        self._done = self._told = 0
        self._wanted = 0
        self._heartbeat = Heartbeat(lambda _: self._print())

    def __enter__(self) -> _ProgressLines:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.__exit__()

    def tell(self, done: int, wanted: int, what: str) -> None:
        if what != self._what:
            self._told = 0
        self._what, self._done, self._wanted = what, done, wanted
        if done >= self._told + max(1, wanted // 10):
            self._print()
            self._heartbeat.reset()

    def _print(self) -> None:
        from beliefrag.cli.output import print_notice

        # Before anything is asked there is nothing to say: a person may be reading the estimate.
        if self._what:
            self._told = self._done
            print_notice(f"{self._done} of {self._wanted} {self._what}")
