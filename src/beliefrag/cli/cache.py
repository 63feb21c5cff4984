"""`beliefrag cache`: count recorded model replies, and move them between machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from beliefrag.models.reply_stores import AnyReplyStore, StorePlace

__all__ = ["app"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Count, export and import recorded model replies.", no_args_is_help=True)

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A file of replies in JSON Lines.", show_default=False)]


def _place() -> StorePlace:
    from beliefrag.models.reply_stores import reply_store_place
    from beliefrag.settings import load_settings

    return reply_store_place(load_settings().settings.cache)


@contextmanager
def _open_store(*, read_only: bool = False) -> Iterator[AnyReplyStore]:
    """Open the store that the settings name. An error of its database is reported in one line."""
    from beliefrag.errors import ModelError
    from beliefrag.models.postgres_replies import StoreFailure
    from beliefrag.models.reply_stores import open_reply_store

    with open_reply_store(_place(), read_only=read_only) as store:
        try:
            yield store
        except StoreFailure as failure:
            raise ModelError(f"The reply cache {store.path} cannot be used: {failure}.") from None


@app.command()
def stats() -> None:
    """Show where the cache is and how many replies of each model it holds.

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
    rows = [("file", str(store.path)), ("size", format_size(found.bytes)), ("replies", f"{found.entries:,}")]
    print_table(("what", "value"), [*rows, *((model, f"{count:,}") for model, count in found.by_model.items())])


@app.command()
def export(
    file: _File,
    model: Annotated[
        str | None,
        typer.Option(metavar="IDENTITY", help="Only replies of this model, as 'cache stats' names it."),
    ] = None,
) -> None:
    """Write the replies to a new file, to replay runs on another machine.

    Example: beliefrag cache export replies.jsonl
    """
    from beliefrag.errors import SettingsError
    from beliefrag.models.reply_store import export_lines

    count = 0
    with _open_store(read_only=True) as store:
        try:
            with file.open("xb") as out:
                for line in export_lines(store, model=model):
                    out.write(line)
                    count += 1
        except FileExistsError:
            raise SettingsError(f"{file} exists already.", remedy="Name another file, or remove it.") from None
    typer.echo(f"{count:,} replies written to {file}")


@app.command("import")
def import_(file: _File) -> None:
    """Add replies that were exported elsewhere. A reply that is known already stays as it is.

    Example: beliefrag cache import replies.jsonl
    """
    from beliefrag.models.reply_store import import_lines

    with file.open("rb") as lines, _open_store() as store:
        found = import_lines(lines, store)
    typer.echo(
        f"{found.added:,} replies added, {found.known:,} were known, {found.different:,} differ and were left out"
    )
