"""`beliefrag config`: show the settings in force with their sources, and what can be chosen by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

import typer

from beliefrag.cli.options import Json

__all__ = ["app", "hide_secrets"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Show the settings in force, and list what can be chosen by name.", no_args_is_help=True)


@app.command()
def show(
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settings in TOML in place of beliefrag.toml; works with every command."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show every setting with its value and its source.

    A setting comes, in this order, from the command line (--set budget.rounds=2), from a variable
    (BELIEFRAG_BUDGET__ROUNDS=2), from beliefrag.toml in this folder or the file of --config, from the user's own file,
    or it is the default.

    Example: beliefrag config show
    """
    from beliefrag.cli.output import print_table
    from beliefrag.settings import load_settings

    rows = [
        (name, hide_secrets(value) if name == "base_url" else value, source)
        for name, value, source in load_settings(config=config).rows()
    ]
    if as_json:
        record = {name: {"value": value, "source": source} for name, value, source in rows}
        typer.echo(json.dumps(record, indent=2, default=str))
    else:
        print_table(
            ("setting", "value", "source"), [(name, _format_value(value), source) for name, value, source in rows]
        )


@app.command()
def extensions() -> None:
    """List the methods, retrievers, verifier forms, dataset formats, studies and model providers to choose from.

    Those of installed packages are among them. One that cannot be used is named on standard error, with the reason.

    Example: beliefrag config extensions
    """
    from beliefrag.bench.datasets.formats import DATASET_FORMATS
    from beliefrag.cli.output import print_table
    from beliefrag.methods import METHODS
    from beliefrag.models.providers import MODEL_PROVIDERS
    from beliefrag.registry import Registry
    from beliefrag.retrieval import RETRIEVERS
    from beliefrag.studies import STUDIES
    from beliefrag.verifiers import VERIFIERS

    registries: tuple[Registry[Any, Any], ...] = (
        *(METHODS, RETRIEVERS, VERIFIERS, DATASET_FORMATS),
        *(STUDIES, MODEL_PROVIDERS),
    )
    rows = [
        (each.kind, each.name, "; ".join(each.describe_options()) or "-", each.summary)
        for registry in registries
        for each in registry.usable()
    ]
    print_table(("kind", "name", "options", "what it does"), rows)


def hide_secrets(url: str | None) -> str | None:
    """Return an address without user, password and query: any of them may be a key."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(not an address)"
    hidden = "(hidden)@" if "@" in parts.netloc else ""
    return urlunsplit((parts.scheme, hidden + host, parts.path, "(hidden)" if parts.query else "", ""))


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
