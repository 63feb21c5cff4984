"""`beliefrag config`, `prompt` and `doctor`: the settings in force, the prompts, and whether everything works."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beliefrag.cli import options
from beliefrag.cli.options import GivenSettings, argument, flag, with_settings
from beliefrag.cli.output import FAILED, print_notice, print_table, safe_lines, show_status
from beliefrag.errors import BeliefRAGError

if TYPE_CHECKING:
    from beliefrag.registry import Registry

app = typer.Typer(help="Show the settings in force, and list what can be chosen by name.", no_args_is_help=True)

_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


@app.command()
def show(config: options.Config = None, as_json: options.Json = False) -> None:
    """Show every setting with its value and its source.

    First the command line, then variables (BELIEFRAG_BUDGET__ROUNDS=2), beliefrag.toml or --config, the user's file.

    Example: beliefrag config show
    """
    from beliefrag.models.providers import public_url
    from beliefrag.settings import load_settings

    rows = [
        (name, public_url(value) if name == "base_url" and value else value, source)
        for name, value, source in load_settings(config=config).rows()
    ]
    if as_json:
        record = {name: {"value": value, "source": source} for name, value, source in rows}
        typer.echo(json.dumps(record, indent=2, default=str))
    else:
        table = [(name, _format_value(value), source) for name, value, source in rows]
        print_table(("setting", "value", "source"), table)


@app.command()
def extensions() -> None:
    """List the methods, retrievers, verifier forms, dataset formats, studies and model providers to choose from.

    Example: beliefrag config extensions
    """
    from beliefrag.bench.datasets.formats import DATASET_FORMATS
    from beliefrag.methods import METHODS
    from beliefrag.models.providers import MODEL_PROVIDERS
    from beliefrag.retrieval import RETRIEVERS
    from beliefrag.studies import STUDIES
    from beliefrag.verifiers import VERIFIERS

    registries: tuple[Registry[Any, Any], ...]
    registries = (METHODS, RETRIEVERS, VERIFIERS, DATASET_FORMATS, STUDIES, MODEL_PROVIDERS)
    rows = [(registry.kind, name, *_describe(registry, name)) for registry in registries for name in registry]
    print_table(("kind", "name", "options", "what it does"), rows)


def _describe(registry: Registry[Any, Any], name: str) -> tuple[str, str]:
    try:
        extension = registry[name]
    except BeliefRAGError as error:
        return "-", str(error)
    return "; ".join(extension.describe_options()) or "-", extension.summary


@with_settings("prompts")
def prompt(
    name: Annotated[str | None, argument("NAME", "The prompt to print.")] = None,
    *,
    given: GivenSettings,
) -> None:
    """List the prompts with the hashes that runs record, or print one.

    Example: beliefrag prompt answer > my-prompts/answer.txt
    """
    from beliefrag.prompts import NAMES, Prompts

    library = Prompts.load(given.read().prompts)
    hashes = library.hashes()
    if name is None:
        shipped = Prompts.load().hashes()
        rows = [(each, digest, "ours" if shipped[each] == digest else "replaced") for each, digest in hashes.items()]
        print_table(("prompt", "hash", "whose"), rows)
        return
    if name not in NAMES:
        raise typer.BadParameter(f"unknown prompt {name!r}; known: {', '.join(NAMES)}", param_hint="NAME")
    # The hash goes to standard error so that the prompt alone can be saved.
    print_notice(f"{name} {hashes[name]}")
    text = library.templates[name]
    typer.echo(safe_lines(text) if sys.stdout.isatty() else text)


@with_settings("model", "base_url", "retriever", "borrow")
def doctor(
    *,
    forget: Annotated[
        bool, flag("--forget", "Forget which features the model's server rejected, and test them again.")
    ] = False,
    given: GivenSettings,
) -> None:
    """Check everything that an answer depends on, and print how to fix what does not work.

    Example: beliefrag doctor --model my-model --base-url http://localhost:8000/v1
    """
    from beliefrag.doctor import CheckState, check_everything

    with show_status("checking everything"):
        findings = check_everything(given.values, config=given.config, forget=forget)
    rows = [(finding.state, finding.name, " ".join((finding.detail, finding.remedy)).strip()) for finding in findings]
    print_table(("", "what", "state, and what to do"), rows, style=lambda state: _STYLES.get(state, ""))
    if any(finding.state is CheckState.PROBLEM for finding in findings):
        raise typer.Exit(FAILED)


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else str(value)
