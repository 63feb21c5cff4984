"""`beliefrag model` and `cache`: the weights of embedded models, and the recorded replies of all models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import argument
from beliefrag.cli.output import can_confirm, is_confirmed, print_notice, print_table, show_progress
from beliefrag.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from beliefrag.models.download import DownloadProgress
    from beliefrag.models.weights import Weights

app = typer.Typer(help="List and download the weights of embedded models.", no_args_is_help=True)
cache_app = typer.Typer(help="Count, export and import recorded model replies.", no_args_is_help=True)

_File = Annotated[Path, argument("FILE", "A file of replies in JSON Lines.")]


@app.command()
def pull(name: Annotated[str | None, argument("NAME", "The weights; without a name, all are listed.")] = None) -> None:
    """Download weights into the cache folder and verify their hash, or list the weights that are known by name.

    Example: beliefrag model pull qwen2.5-coder-1.5b
    """
    from beliefrag.models.download import pull as download

    if name is None:
        _print_weights()
        return
    with show_download() as progress:
        path = download(name, progress=progress)
    typer.echo(f"Ready: {path}")


def _print_weights() -> None:
    from beliefrag.models.weights import CATALOGUE, DEFAULT, is_present

    rows = [
        (
            weights.name,
            format_size(weights.size),
            weights.licence,
            "yes" if is_present(weights) else "no",
            "yes" if weights.name == DEFAULT else "no",
            f"{weights.model}: {weights.purpose}",
        )
        for weights in CATALOGUE
    ]
    print_table(("name", "size", "licence", "present", "default", "what it is"), rows)


def ensure_weights(model: str, *, agreed: bool) -> None:
    """Download the weights of a known embedded model if they are missing; ask first, unless it was agreed to."""
    if not model.startswith("local:"):
        return
    from beliefrag.models.download import pull as download
    from beliefrag.models.weights import CATALOGUE, DEFAULT, is_present

    name = model.removeprefix("local:") or DEFAULT
    weights = next((each for each in CATALOGUE if each.name == name), None)
    if weights is None or is_present(weights):
        return
    if not agreed:
        _ask_permission(weights)
    with show_download() as progress:
        download(name, progress=progress)


def _ask_permission(weights: Weights) -> None:
    from beliefrag.models.download import describe_sources

    typer.echo(f"The weights of {weights.name} ({weights.model}) are not on this machine yet.", err=True)
    typer.echo("\n".join(_describe(weights, " or ".join(describe_sources(weights).values()))), err=True)
    if not (can_confirm() and is_confirmed("Download them now?")):
        raise ModelError(
            f"The weights of {weights.name} are needed and are not on this machine.",
            remedy=f"Get them with 'beliefrag model pull {weights.name}' or 'beliefrag demo --yes', "
            "or name another model with --model.",
        )


def _describe(weights: Weights, source: str, already: str = "") -> list[str]:
    return [
        f"  size     {format_size(weights.size)}{already}",
        f"  source   {source}",
        f"  licence  {weights.licence}",
    ]


def format_size(size: int) -> str:
    """Return a size in bytes as a person says it: 1.12 GB, 98 MB."""
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


@contextmanager
def show_download() -> Iterator[DownloadProgress]:
    """Show a download on standard error."""
    from beliefrag.models.download import DownloadProgress

    with show_progress("pulling") as show:

        class Shown(DownloadProgress):
            def on_start(self, weights: Weights, source: str, done: int) -> None:
                already = f", {format_size(done)} of it here already" if done else ""
                for line in (f"Pulling {weights.name} ({weights.model})", *_describe(weights, source, already)):
                    print_notice(line)

            def on_bytes(self, done: int, total: int) -> None:
                show(done, total, f"{format_size(done)} of {format_size(total)}")

            def on_message(self, text: str) -> None:
                print_notice(text)

        yield Shown()


@cache_app.command()
def stats() -> None:
    """Show where the cache is and how many replies of each model it holds.

    Example: beliefrag cache stats
    """
    from beliefrag.models.cache import ReplyStore, reply_store_path

    path = reply_store_path()
    if not path.is_file():
        typer.echo(f"The cache is empty; it will be {path}")
        return
    with ReplyStore(path, read_only=True) as store:
        by_model = store.count()
    rows = [("file", str(path)), ("size", format_size(path.stat().st_size)), ("replies", f"{sum(by_model.values()):,}")]
    print_table(("what", "value"), [*rows, *((model, f"{count:,}") for model, count in by_model.items())])


@cache_app.command()
def export(file: _File) -> None:
    """Write the replies to a new file, to replay runs on another machine.

    Example: beliefrag cache export replies.jsonl
    """
    from beliefrag.models.cache import ReplyStore, export_lines, reply_store_path

    count = 0
    with ReplyStore(reply_store_path(), read_only=True) as store:
        try:
            with file.open("xb") as out:
                for line in export_lines(store):
                    out.write(line)
                    count += 1
        except FileExistsError:
            raise SettingsError(f"{file} exists already.", remedy="Name another file, or remove it.") from None
    typer.echo(f"{count:,} replies written to {file}")


@cache_app.command("import")
def import_(file: _File) -> None:
    """Add replies that were exported elsewhere; the file may be gzipped (.gz). Known replies stay as they are.

    Example: beliefrag cache import replies.jsonl
    """
    from beliefrag.models.cache import import_replies

    found = import_replies(file)
    typer.echo(
        f"{found.added:,} replies added, {found.known:,} known already, {found.different:,} different and skipped"
    )
