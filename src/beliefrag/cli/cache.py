"""`beliefrag cache`: count recorded model replies, and move them between machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli.options import argument, option
from beliefrag.cli.output import print_table

app = typer.Typer(help="Count, export and import recorded model replies.", no_args_is_help=True)

_File = Annotated[Path, argument("FILE", "A file of replies in JSON Lines.")]


@app.command()
def stats() -> None:
    """Show where the cache is and how many replies of each model it holds.

    Example: beliefrag cache stats
    """
    from beliefrag.cli.model import format_size
    from beliefrag.models.cache import ReplyStore, reply_store_path

    path = reply_store_path()
    if not path.is_file():
        typer.echo(f"The cache is empty; it will be {path}")
        return
    with ReplyStore(path, read_only=True) as store:
        by_model = store.count()
    rows = [("file", str(path)), ("size", format_size(path.stat().st_size)), ("replies", f"{sum(by_model.values()):,}")]
    print_table(("what", "value"), [*rows, *((model, f"{count:,}") for model, count in by_model.items())])


@app.command()
def export(
    file: _File,
    model: Annotated[str | None, option("IDENTITY", "Only replies of this model, as 'cache stats' names it.")] = None,
) -> None:
    """Write the replies to a new file, to replay runs on another machine.

    Example: beliefrag cache export replies.jsonl
    """
    from beliefrag.errors import SettingsError
    from beliefrag.models.cache import ReplyStore, export_lines, reply_store_path

    count = 0
    with ReplyStore(reply_store_path(), read_only=True) as store:
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
    from beliefrag.models.cache import ReplyStore, import_lines, reply_store_path

    with file.open("rb") as lines, ReplyStore(reply_store_path()) as store:
        found = import_lines(lines, store)
    typer.echo(
        f"{found.added:,} replies added, {found.known:,} were known, {found.different:,} differ and were left out"
    )
