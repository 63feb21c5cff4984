"""`beliefrag calibrate`: collects states, fits probabilities to them, says how good they are, and makes guarantees."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beliefrag.cli.calibrate_auto import calibrate_auto
from beliefrag.cli.calibrate_collect import collect as collect_command
from beliefrag.cli.options import GivenSettings, Json, Label, with_settings

if TYPE_CHECKING:
    from beliefrag.calibration.quality import ArtifactCheck

__all__ = ["app"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(
    help="Fit and check calibrations: probabilities that mean what they say, for a model and documents.",
    no_args_is_help=True,
)
app.command("auto")(calibrate_auto)
app.command("collect")(collect_command)

_Artifact = Annotated[str, typer.Argument(metavar="NAME|FILE", help="A calibration.", show_default=False)]


@app.command()
def fit(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders with recorded states.", show_default=False)
    ],
    *,
    label: Label = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the calibration; by default that of the model.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write it; by default calibration.json in the first run's folder."),
    ] = None,
    quality_on: Annotated[
        list[Path] | None,
        typer.Option(
            "--quality-on",
            metavar="RUN",
            help="Measure the quality of both fits on the states of this run in place of xhold, on questions that are "
            "neither fitted nor chosen on; can be given again.",
        ),
    ] = None,
) -> None:
    """Fit answerability and retrieval value to recorded states: fitted on xfit, chosen on xsel, measured on xhold.

    No model is asked. Example: beliefrag calibrate fit runs/states --out mine.json
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import print_notice, print_report

    path = out or runs[0] / "calibration.json"
    found = calibrate.fit(runs, label=label, name=name, quality_on=quality_on or (), out=path)
    print_report(found.tables)
    _print_warnings(found.warnings)
    print_notice(f"written: {path}; use it with --set calibration={path}")


@app.command()
def ranker(
    *,
    questions: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="Your own questions with their answers, as CSV, TSV or JSON Lines.", show_default=False
        ),
    ],
    docs: Annotated[
        list[Path],
        typer.Option("--docs", metavar="PATH", help="The files and folders with your documents.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the ranker.")] = Path("ranker.npz"),
) -> None:
    """Fit the ranker of linked retrieval on your own questions and documents. No model is asked.

    A passage is needed where it holds an answer word for word. Three questions in ten are held out, and say whether
    your ranker finds more than the shipped one.

    Example: beliefrag calibrate ranker --questions questions.csv --docs handbook --out ranker.npz
    """
    from beliefrag import bench
    from beliefrag.bench.own_ranker import fit_own_ranker
    from beliefrag.cli.output import print_notice, show_status
    from beliefrag.errors import SettingsError

    if not out.absolute().parent.is_dir():
        raise SettingsError(
            f"There is no folder {out.parent} for the ranker.", remedy="Make it, or name another --out."
        )
    with show_status("reading documents"):
        dataset = bench.user_dataset(questions, docs)
    with show_status("fitting"):
        fitted = fit_own_ranker(dataset)
    fitted.ranker.save(out)
    typer.echo(
        f"fitted on {fitted.questions:,} questions; {fitted.left_out:,} have no passage that is known to be needed"
    )
    for name, share in fitted.found.items():
        low, high = share.low, share.high
        interval = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
        typer.echo(
            f"needed passages among 5, {share.questions} held-out questions, {name}: {share.value:.2f}{interval}"
        )
    print_notice(f"written: {out}; use it with --retriever linked:ranker={out}")


@app.command()
def show(
    artifact: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE", help="A calibration; without it, those that come with the package.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a calibration was fitted on, how good it is on held-out questions, and its coefficients.

    Example: beliefrag calibrate show qwen2.5-coder-1.5b
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import print_report

    found = calibrate.show(artifact)
    if as_json:
        texts = [each.model_dump_json(indent=2) for each in found.found]
        typer.echo(texts[0] if artifact else f"[{', '.join(texts)}]")
    else:
        print_report(found.tables)


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
    label: Label = None,
) -> None:
    """Set two calibrations side by side; with --states also on the same states, with intervals of the difference.

    Example: beliefrag calibrate compare mine.json qwen2.5-coder-1.5b --states runs/states
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import print_notice, print_report

    found = calibrate.compare(first, second, states=states or (), label=label)
    _print_warnings(found.warnings)
    if found.found and found.found.left_out:
        print_notice(f"{found.found.left_out:,} questions are left out: one of the two was fitted or chosen on them")
    print_report(found.tables, fold_first=True)


@app.command()
def check(
    artifact: _Artifact,
    states: Annotated[
        list[Path],
        typer.Option(
            "--states", metavar="RUN", help="A run with recorded states; can be given again.", show_default=False
        ),
    ],
    label: Label = None,
    as_json: Json = False,
) -> None:
    """Measure a calibration on recorded states of questions that it was neither fitted nor chosen on.

    No model is asked. Example: beliefrag calibrate check qwen2.5-coder-1.5b --states runs/dev
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import print_notice, print_report

    found = calibrate.check(artifact, states, label=label)
    _print_warnings(found.warnings)
    checked = found.found
    if as_json:
        typer.echo(json.dumps(_check_record(checked), indent=1))
        return
    if checked.left_out:
        print_notice(f"{checked.left_out:,} questions are left out: it was fitted or chosen on them")
    own = checked.has_own_base_rate
    source = "of the fitted questions" if own else "of these states: the calibration does not give one"
    typer.echo(f"base rate {checked.base_rate:.3f}, {source}")
    typer.echo("")
    print_report(found.tables)


@app.command()
@with_settings("confidence")
def risk(
    calibration: Annotated[
        str, typer.Argument(metavar="CALIBRATION", help="The file of a calibration.", show_default=False)
    ],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run with recorded states.", show_default=False)],
    *,
    max_error: Annotated[
        list[float],
        typer.Option(
            "--max-error",
            metavar="SHARE",
            help="The largest share of wrong answers among those given; can be given again.",
            show_default=False,
        ),
    ],
    label: Label = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to save the calibration with it; by default in its own file."),
    ] = None,
    given: GivenSettings,
) -> None:
    """Choose from which answerability on to answer, so that at most a given share of the answers is wrong.

    It is chosen on the held-out questions of the run, for the thresholds in force, and saved in the calibration; then
    'beliefrag ask --max-error' keeps to it. The risk-coverage curve is drawn next to it. No model is asked.

    Example: beliefrag calibrate risk mine.json runs/states --max-error 0.1 --max-error 0.2
    """
    from beliefrag import calibrate
    from beliefrag.cli.output import print_notice, print_report
    from beliefrag.settings import load_settings

    for share in max_error:
        if not 0 < share < 1:
            raise typer.BadParameter(f"a share lies between 0 and 1, not at {share:g}", param_hint="--max-error")
    settings = load_settings(given.values, config=given.config).settings
    found = calibrate.risk(
        calibration,
        run,
        max_error=max_error,
        confidence=settings.confidence,
        label=label,
        thresholds=settings.policy_thresholds,
        out=out or _own_file(calibration),
    )
    print_report(found.tables)
    for warning in found.warnings:
        print_notice(warning)
    if curve := found.found[1]:
        typer.echo(
            f"area under the risk-coverage curve: {curve.aurc:.3f}; wrong if all are answered: {curve.risk[-1]:.3f}"
        )
    for path in found.files:
        print_notice(f"written: {path}")


def _own_file(calibration: str) -> Path:
    """Gives the calibration's own file. A calibration that comes with the package has no file that could be written."""
    from beliefrag.calibration import shipped_artifacts
    from beliefrag.errors import SettingsError

    if calibration in shipped_artifacts():
        raise SettingsError(
            f"{calibration} comes with the package and stays as it is.", remedy="Name a file with --out."
        )
    return Path(calibration).expanduser()


def _check_record(check: ArtifactCheck) -> dict[str, Any]:
    return {
        "seen": check.left_out,
        "base_rate": check.base_rate,
        "own_base_rate": check.has_own_base_rate,
        "overall": check.overall.model_dump(),
        "datasets": {name: each.model_dump() for name, each in check.datasets.items()},
        "alone": check.diagnostic_aucs,
    }


def _print_warnings(warnings: Iterable[str]) -> None:
    from beliefrag.cli.output import print_notice

    for warning in warnings:
        print_notice(f"warning: {warning}")
