"""`beliefrag config`: which settings are in force, where each came from, and what can be chosen by name."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

import typer

from beliefrag.cli import options
from beliefrag.cli.command_group import CommandGroup

__all__ = ["app", "hide_secrets"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = CommandGroup(help="Show the settings in force, and list what can be chosen by name.", no_args_is_help=True)


@app.command()
def show(
    config: options.Config = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")] = False,
    debug: options.Debug = False,
) -> None:
    """Show every setting with its value and its source.

    A setting comes from what is typed, from a BELIEFRAG_ variable (BELIEFRAG_BUDGET__ROUNDS=2 sets budget.rounds), from
    beliefrag.toml in this folder or the file given with --config, from the user's own file, or is the default.

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
def extensions(debug: options.Debug = False) -> None:
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
    """Gives an address without user, password and query: any of them may be a key."""
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
