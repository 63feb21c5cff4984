"""`beliefrag calibrate check`: how good a calibration is on states that it has not seen."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli import options

__all__ = ["check"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


def check(
    artifact: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A calibration.", show_default=False)],
    states: Annotated[
        list[Path],
        typer.Option(
            "--states", metavar="RUN", help="A run with recorded states; can be given again.", show_default=False
        ),
    ],
    label: options.Label = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")] = False,
    debug: options.Debug = False,
) -> None:
    """Measure a calibration on recorded states of questions that it was neither fitted nor chosen on.

    No model is asked. Example: beliefrag calibrate check qwen2.5-coder-1.5b --states runs/dev
    """
    from beliefrag.calibration import find_mismatches, load_artifact
    from beliefrag.calibration.artifact_checks import check_artifact
    from beliefrag.calibration.collection import parse_label, read_collection
    from beliefrag.cli.calibration_view import print_quality
    from beliefrag.cli.output import print_notice, print_table

    fitted = load_artifact(artifact)
    wanted = parse_label(label) if label else None
    collection = read_collection(states)
    for reason in find_mismatches(fitted, collection.conditions):
        print_notice(f"warning: {fitted.name} is not for these states: it was {reason}")
    if fitted.fit is None:
        print_notice(
            f"warning: {fitted.name} does not say which questions it has seen; some of these may be among them"
        )
    found = check_artifact(fitted, collection, wanted or collection.default_label())
    if as_json:
        plain = asdict(found) | {
            "overall": found.overall.model_dump(),
            "datasets": {name: each.model_dump() for name, each in found.datasets.items()},
        }
        typer.echo(json.dumps(plain, indent=1))
        return
    if found.seen:
        print_notice(f"{found.seen:,} questions are left out: it was fitted or chosen on them")
    whose = "of the fitted questions" if found.own_base_rate else "of these states: the calibration tells none"
    typer.echo(f"base rate {found.base_rate:.3f}, {whose}")
    for name, each in {"all datasets": found.overall, **found.datasets}.items():
        if name == "all datasets" or len(found.datasets) > 1:
            print_quality(f"Answerability on unseen questions: {name}", each)
    typer.echo("\nAUC of each diagnostic by itself: 0.5 is no signal")
    print_table(("name", "AUC"), [(name, f"{area:.3f}") for name, area in found.alone.items()])
