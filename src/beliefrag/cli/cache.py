"""`beliefrag cache`: the recorded model replies: how many, whether they still hold, moving and deleting them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.command_group import CommandGroup
from beliefrag.cli.labelled_questions import QuestionOptions

if TYPE_CHECKING:
    from beliefrag.models.reply_stores import AnyReplyStore, StorePlace

__all__ = ["app"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = CommandGroup(help="Count, audit, repair, export, import and prune recorded model replies.", no_args_is_help=True)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A file of replies in JSON Lines.", show_default=False)]


def _place() -> StorePlace:
    from beliefrag.models.reply_stores import reply_store_place
    from beliefrag.settings import load_settings

    return reply_store_place(load_settings().settings.cache)


@contextmanager
def _open_store(*, read_only: bool = False) -> Iterator[AnyReplyStore]:
    """Opens the store that the settings name. What its database refuses is an error in one line."""
    from beliefrag.errors import ModelError
    from beliefrag.models.postgres_replies import StoreFailure
    from beliefrag.models.reply_stores import open_reply_store

    with open_reply_store(_place(), read_only=read_only) as store:
        try:
            yield store
        except StoreFailure as failure:
            raise ModelError(f"The reply cache {store.path} cannot be used: {failure}.") from None


@app.command()
def stats(debug: options.Debug = False) -> None:
    """Show where the cache is and how many replies of which model it holds.

    Example: beliefrag cache stats
    """
    from beliefrag.cli.output import print_table
    from beliefrag.cli.weights import format_size

    place = _place()
    if isinstance(place, Path) and not place.is_file():
        typer.echo(f"There is no cache yet; it will be {place}")
        return
    with _open_store(read_only=True) as store:
        found = store.stats()
    rows = [
        ("file" if isinstance(place, Path) else "place", str(store.path)),
        ("size", format_size(found.bytes)),
        ("replies", f"{found.entries:,}"),
    ]
    print_table(("what", "value"), [*rows, *((model, f"{count:,}") for model, count in found.by_model.items())])


@app.command()
@options.with_option_groups
def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run whose replies to repeat.", show_default=False)],
    further: options.FurtherFolders = None,
    *,
    asked: QuestionOptions,
    most: Annotated[
        int | None, typer.Option("--n", metavar="N", min=1, help="Stop after this many replies; all by default.")
    ] = None,
    model: options.ModelOptions,
    prompts: options.Prompts = None,
    debug: options.Debug = False,
) -> None:
    """Ask the live model again what a run's replies were recorded for, and count how many diverge.

    A reply in the same words with other token probabilities (by more than 0.001) is counted apart.

    Every request is paid for again. The cache is not changed. The model and all settings are those of the run.

    Example: beliefrag cache audit runs/first --data hotpotqa --n 200
    """
    from beliefrag import bench
    from beliefrag.cli.output import print_table, show_status
    from beliefrag.settings import load_settings

    folders, own = asked.read(further)
    typed = {**model.as_settings(), "prompts": prompts, "cache": load_settings().settings.cache}
    changes = {name: value for name, value in typed.items() if value is not None}
    with show_status("asking again"):
        found = bench.audit(run, data=folders, own=own, changes=changes, most=most)
    typer.echo(f"{found.diverged.total():,} of {found.compared:,} replies diverge from the live model")
    if found.reweighed:
        typer.echo(f"{found.reweighed.total():,} more have the same text with other token probabilities")
    if found.unasked or found.missing:
        typer.echo(f"{found.unasked.total():,} could not be asked again, {found.missing:,} are not in the cache")
    parts = (found.same, found.reweighed, found.diverged, found.unasked)
    purposes = sorted({purpose for part in parts for purpose in part})
    rows = [(purpose, *(f"{part[purpose]:,}" for part in parts)) for purpose in purposes]
    print_table(("purpose", "same", "other probabilities", "diverged", "not asked"), rows)


@app.command()
def repair(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="The cache file; by default the one of the cache folder.", show_default=False
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Keep the replies of a damaged cache that are whole, and say what was lost.

    A reply is whole if it matches its checksum. What is lost is asked for again when it is needed. A file that is
    damaged itself is kept beside the new one, and no run may use it meanwhile; a database may be in use.

    Example: beliefrag cache repair
    """
    from beliefrag.models.reply_repair import repair_database, repair_store

    place = file or _place()
    report = repair_store(place) if isinstance(place, Path) else repair_database(place)
    typer.echo(f"{report.kept:,} replies are whole and kept")
    if report.damaged:
        keys = ", ".join(key[:12] for key in report.damaged[:5]) + (" ..." if len(report.damaged) > 5 else "")
        typer.echo(f"{len(report.damaged):,} replies were damaged and are removed: {keys}")
    if report.unreadable:
        typer.echo(f"up to {report.unreadable:,} replies were on damaged pages of the file and are lost")
    if report.set_aside:
        typer.echo(f"the damaged file is now {report.set_aside}")


@app.command()
def export(
    file: _File,
    model: Annotated[
        str | None,
        typer.Option(metavar="IDENTITY", help="Export only the replies of this model, as 'cache stats' names it."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Overwrite a file that is there.")] = False,
    debug: options.Debug = False,
) -> None:
    """Write the replies to a file, for a replay on another machine.

    Example: beliefrag cache export replies.jsonl
    """
    from beliefrag.errors import SettingsError
    from beliefrag.models.reply_store import export_lines

    count = 0
    with _open_store(read_only=True) as store:
        try:
            with file.open("wb" if force else "xb") as out:
                for line in export_lines(store, model=model):
                    out.write(line)
                    count += 1
        except FileExistsError:
            raise SettingsError(f"{file} is there already.", remedy="Use --force to overwrite it.") from None
    typer.echo(f"{count:,} replies written to {file}")


@app.command("import")
def import_(file: _File, debug: options.Debug = False) -> None:
    """Take in replies that were exported elsewhere. One that is there already stays as it is.

    Example: beliefrag cache import replies.jsonl
    """
    from beliefrag.models.reply_store import import_lines

    with file.open("rb") as lines, _open_store() as store:
        found = import_lines(lines, store)
    typer.echo(
        f"{found.added:,} replies added, {found.known:,} were known, {found.different:,} differ and were left out"
    )


@app.command()
def prune(
    older_than: Annotated[
        float,
        typer.Option(
            metavar="DAYS", min=0, help="Delete replies that are older than this many days.", show_default=False
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask before deleting.")] = False,
    debug: options.Debug = False,
) -> None:
    """Delete old replies. Runs that used them can no longer be replayed.

    Example: beliefrag cache prune --older-than 90
    """
    import time

    from beliefrag.errors import SettingsError

    place = _place()
    if isinstance(place, Path) and not place.is_file():
        typer.echo("There is no cache, and nothing to delete.")
        return
    moment = time.time() - older_than * 86_400
    with _open_store() as store:
        doomed = sum(stored.created < moment for stored in store)
        if doomed and not yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise SettingsError(f"{doomed:,} replies would be deleted for good.", remedy="Give --yes to do it.")
            if not typer.confirm(f"Delete {doomed:,} replies for good?", err=True):
                typer.echo("Nothing was deleted.")
                return
        deleted = store.delete_older_than(moment)
    typer.echo(f"{deleted:,} replies deleted")
