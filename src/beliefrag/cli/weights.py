"""Sees to it that the embedded model's weights are here, after telling a person what will be downloaded."""

from __future__ import annotations

import sys

import typer

from beliefrag.cli.model_output import readable, watching
from beliefrag.errors import ModelError
from beliefrag.models.weights import CATALOGUE, DEFAULT, Weights, is_present
from beliefrag.models.weights.sources import Hub
from beliefrag.models.weights.download import pull
from beliefrag.models.weights.sources import Registry
from beliefrag.models.weights.store import path_of, scratch_path

__all__ = ["ensure_weights"]

_LOCAL = "local:"


def ensure_weights(model: str, *, agreed: bool) -> None:
    """Downloads the weights of a known embedded model if they are not here.

    Any other model (an endpoint, a script, a file of one's own) is none of this function's business.

    Args:
        model: As in the settings.
        agreed: Download without asking.

    Raises:
        ModelError: They are not here, and nobody can be asked or somebody said no; or they cannot be had.
    """
    name = model.removeprefix(_LOCAL) or DEFAULT
    weights = next((each for each in CATALOGUE if each.name == name), None)
    if not model.startswith(_LOCAL) or weights is None or is_present(weights):
        return
    if not agreed:
        _ask(weights)
    with watching() as watcher:
        pull(weights.name, watcher=watcher)


def _ask(weights: Weights) -> None:
    sources = [source for source in (Hub(), Registry(scratch_path(path_of(weights)))) if source.has(weights)]
    lines = [
        f"The weights of {weights.name} are not on this machine yet.",
        f"  what     {weights.model}, {weights.quantisation}",
        f"  size     {readable(weights.size)}",
        f"  licence  {weights.licence}",
    ]
    lines += [f"  {'source ' if source is sources[0] else 'or else'}  {source.describe(weights)}" for source in sources]
    typer.echo("\n".join(lines), err=True)
    if sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm("Download them now?", default=True, err=True):
        return
    raise ModelError(
        f"Without the weights of {weights.name} there is nothing to run.",
        remedy=f"Get them with 'beliefrag model pull {weights.name}' or 'beliefrag demo --yes', "
        "or name another model with --model.",
    )
