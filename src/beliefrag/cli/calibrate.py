"""`beliefrag calibrate`: collects states, fits probabilities to them, shows how good they are, makes guarantees."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.calibrate_check import check
from beliefrag.cli.calibrate_collect import collect as collect_command
from beliefrag.cli.calibrate_risk import risk

__all__ = ["app"]

# The commands import what they need themselves, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = typer.Typer(
    help="Calibration: probabilities that mean what they say, for a model and documents.", no_args_is_help=True
)
app.command("collect")(collect_command)

_Artifact = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A calibration.", show_default=False)]


@app.command()
def fit(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders with recorded states.", show_default=False)
    ],
    *,
    label: options.Label = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; by default as the model is called.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write it; by default calibration.json in the first run's folder."),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--everything",
            metavar="",
            help="Fit the chosen kind again on all questions, held-out ones included. It is then marked contaminated.",
        ),
    ] = False,
    quality_on: Annotated[
        list[Path] | None,
        typer.Option(
            "--quality-on",
            metavar="RUN",
            help="Tell its quality by the states of this run in place of xhold, on questions that are neither fitted "
            "nor chosen on; can be given again.",
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Fit answerability and retrieval value to the states of runs: on xfit, chosen on xsel, its quality from xhold.

    No model is asked. Example: beliefrag calibrate fit runs/states --out mine.json
    """
    from beliefrag.calibration.artifact import write_artifact
    from beliefrag.calibration.collection import parse_label, read_collection
    from beliefrag.calibration.fit_artifact import fit_artifact
    from beliefrag.cli.calibration_view import print_artifact
    from beliefrag.cli.output import print_notice

    wanted = parse_label(label) if label else None
    path = out or runs[0] / "calibration.json"
    dropped = _guarantees_at(path)
    collection = read_collection(runs)
    elsewhere = None
    if quality_on:
        # Refuses states that do not mean the same.
        read_collection(list({folder.resolve(): folder for folder in (*runs, *quality_on)}.values()))
        elsewhere = read_collection(quality_on)
    artifact = fit_artifact(
        collection, wanted or collection.default_label(), name=name, everything=everything, elsewhere=elsewhere
    )
    write_artifact(artifact, path)
    print_artifact(artifact)
    if dropped:
        print_notice(
            f"warning: {path} had {dropped:,} guarantees of the earlier fit, and they are gone: make new ones with "
            "'beliefrag calibrate risk'"
        )
    print_notice(f"written: {path}; use it with --calibration {path}")


def _guarantees_at(path: Path) -> int:
    """How many guarantees the calibration holds that is about to be replaced; any other file is not replaced."""
    from beliefrag.calibration import load_artifact
    from beliefrag.errors import CalibrationError, SettingsError

    if not path.is_file():
        return 0
    try:
        return len(load_artifact(str(path.absolute())).guarantees)
    except CalibrationError:
        raise SettingsError(
            f"{path} is there already, and is no calibration.", remedy="Name another file with --out."
        ) from None


@app.command()
def show(
    artifact: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE", help="A calibration; without it, those that come with the package.", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")] = False,
    debug: options.Debug = False,
) -> None:
    """Show what a calibration was fitted on, how good it is on held-out questions, and its coefficients.

    Example: beliefrag calibrate show qwen2.5-coder-1.5b
    """
    from beliefrag.calibration import load_artifact, shipped_artifacts
    from beliefrag.cli.calibration_view import print_artifact, print_list

    found = [load_artifact(artifact)] if artifact else list(shipped_artifacts().values())
    if as_json:
        texts = [each.model_dump_json(indent=2) for each in found]
        typer.echo(texts[0] if artifact else f"[{', '.join(texts)}]")
    elif artifact:
        print_artifact(found[0])
    else:
        print_list(found)


@app.command()
def compare(
    first: _Artifact,
    second: _Artifact,
    states: Annotated[
        list[Path] | None,
        typer.Option(
            "--states",
            metavar="RUN",
            help="Compare them on the recorded states of this run, on questions that neither was fitted or chosen on; "
            "can be given again.",
        ),
    ] = None,
    label: options.Label = None,
    debug: options.Debug = False,
) -> None:
    """Set two calibrations side by side; with --states also on the same states, with intervals of the difference.

    Example: beliefrag calibrate compare mine.json qwen2.5-coder-1.5b --states runs/states
    """
    from beliefrag.calibration import find_mismatches, load_artifact
    from beliefrag.calibration.artifact_checks import compare_artifacts
    from beliefrag.calibration.collection import parse_label, read_collection
    from beliefrag.cli.calibration_comparison import print_comparison, print_side_by_side
    from beliefrag.cli.output import print_notice
    from beliefrag.errors import SettingsError

    one, other = load_artifact(first), load_artifact(second)
    if label and not states:
        raise SettingsError("--label says what is right at states, and no states were given.", remedy="Add --states.")
    wanted = parse_label(label) if label else None
    found = None
    if states:
        collection = read_collection(states)
        wanted = wanted or collection.default_label()
        found = compare_artifacts(one, other, collection, wanted)
        for artifact in (one, other):
            for reason in find_mismatches(artifact, collection.conditions):
                print_notice(f"warning: {artifact.name} is not for these states: it was {reason}")
    print_side_by_side(one, other)
    if found and wanted:
        print_comparison(found, one, other, wanted)


app.command()(check)
app.command()(risk)
