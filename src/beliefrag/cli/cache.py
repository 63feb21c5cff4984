"""`beliefrag cache`: the recorded model replies: how many, moving and deleting them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.command_group import CommandGroup

__all__ = ["app"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = CommandGroup(help="Count, export, import and prune recorded model replies.", no_args_is_help=True)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A file of replies in JSON Lines.", show_default=False)]


@app.command()
def stats(debug: options.Debug = False) -> None:
    """Show where the cache is and how many replies of which model it holds.

    Example: beliefrag cache stats
    """
    from beliefrag.cli.output import print_table
    from beliefrag.cli.weights import format_size
    from beliefrag.models.reply_store import ReplyStore, reply_store_path

    path = reply_store_path()
    if not path.is_file():
        typer.echo(f"There is no cache yet; it will be {path}")
        return
    with ReplyStore(path, read_only=True) as store:
        found = store.stats()
    rows = [
        ("file", str(path)),
        ("size", format_size(found.bytes)),
        ("replies", f"{found.entries:,}"),
    ]
    print_table(("what", "value"), [*rows, *((model, f"{count:,}") for model, count in found.by_model.items())])


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
    from beliefrag.models.reply_store import ReplyStore, export_lines, reply_store_path

    count = 0
    with ReplyStore(reply_store_path(), read_only=True) as store:
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
    from beliefrag.models.reply_store import ReplyStore, import_lines, reply_store_path

    with file.open("rb") as lines, ReplyStore(reply_store_path()) as store:
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
    from beliefrag.models.reply_store import ReplyStore, reply_store_path

    path = reply_store_path()
    if not path.is_file():
        typer.echo("There is no cache, and nothing to delete.")
        return
    moment = time.time() - older_than * 86_400
    with ReplyStore(path) as store:
        doomed = sum(stored.created < moment for stored in store)
        if doomed and not yes:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise SettingsError(f"{doomed:,} replies would be deleted for good.", remedy="Give --yes to do it.")
            if not typer.confirm(f"Delete {doomed:,} replies for good?", err=True):
                typer.echo("Nothing was deleted.")
                return
        deleted = store.delete_older_than(moment)
    typer.echo(f"{deleted:,} replies deleted")
