"""`beliefrag calibrate risk`: chooses from which answerability on to answer, so that few answers are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options

if TYPE_CHECKING:
    from beliefrag.calibration import Guarantee
    from beliefrag.calibration.guarantee_from_run import RunRiskSample

__all__ = ["risk"]

# The command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


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
    confidence: Annotated[
        float | None, typer.Option(metavar="SHARE", help="How surely it is kept to; 0.9 by default.")
    ] = None,
    label: options.Label = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to save the calibration with it; by default in its own file."),
    ] = None,
    config: options.Config = None,
    debug: options.Debug = False,
) -> None:
    """Choose from which answerability on to answer, so that at most a given share of the answers is wrong.

    It is chosen on the held-out questions of the run, for the thresholds in force, and saved in the calibration; then
    'beliefrag ask --max-error' keeps to it. The risk-coverage curve is drawn next to it. No model is asked.

    Example: beliefrag calibrate risk mine.json runs/survey --max-error 0.1 --max-error 0.2
    """
    from beliefrag.calibration.artifact import write_artifact
    from beliefrag.calibration.collection import parse_label, read_collection
    from beliefrag.calibration.guarantee_from_run import (
        add_guarantees,
        load_artifact_for_run,
        make_guarantees,
        read_risk_sample,
    )
    from beliefrag.cli.output import print_notice
    from beliefrag.errors import SettingsError
    from beliefrag.policy import ScoreScale
    from beliefrag.settings import load_settings

    targets = sorted(set(max_error))
    for share in (*targets, *([] if confidence is None else [confidence])):
        if not 0 < share < 1:
            raise typer.BadParameter(f"a share lies between 0 and 1, not at {share:g}")
    settings = load_settings({"confidence": confidence}, config=config).settings
    wanted = parse_label(label) if label else None
    if not settings.thresholds.abstain:
        raise SettingsError("A policy that never abstains keeps to no bound.", remedy="Set thresholds.abstain to true.")
    thresholds = replace(settings.thresholds, least_answerability=None)
    file = _file_to_write(calibration, out)
    collection = read_collection([run])
    (record,), trajectories = collection.runs, collection.trajectories
    by = wanted or collection.default_label()
    artifact = load_artifact_for_run(calibration, record)
    # The scale is not used: relevance was measured when the states were recorded.
    fit = artifact.calibration(artifact.score_scale or ScoreScale(0.0, 1.0))
    seen = artifact.seen(each for dataset in record.datasets.values() for each in dataset.question_ids)
    found = read_risk_sample(record, trajectories, fit, label=by, thresholds=thresholds, seen=seen)
    guarantees = make_guarantees(
        found, record, targets=targets, confidence=settings.confidence, label=by, thresholds=thresholds
    )
    write_artifact(add_guarantees(artifact, guarantees), file)
    _print(guarantees, found)
    print_notice(f"written: {file}")
    for picture in _draw(found, guarantees, file):
        print_notice(f"written: {picture}")


def _file_to_write(calibration: str, out: Path | None) -> Path:
    """Where the calibration is saved. A shipped one has no file of the user's own, and no other file is overwritten."""
    from beliefrag.calibration import shipped_artifacts
    from beliefrag.errors import SettingsError

    own = None if calibration in shipped_artifacts() else Path(calibration).expanduser()
    file = out or own
    if file is None:
        raise SettingsError(
            f"{calibration} comes with the package and stays as it is.", remedy="Name a file with --out."
        )
    if file.exists() and not (own and own.exists() and file.samefile(own)):
        raise SettingsError(f"{file} is there already.", remedy="Name another file with --out.")
    return file


def _print(guarantees: Sequence[Guarantee], found: RunRiskSample) -> None:
    from beliefrag.calibration.risk import answers_needed
    from beliefrag.cli.output import print_notice, print_table

    rows = [
        (
            f"{each.max_error:g}",
            f"{each.confidence:g}",
            "none" if each.threshold is None else f"{each.threshold:.2f}",
            f"{each.answered:,} of {each.questions:,}",
            f"{each.wrong:,}",
        )
        for each in guarantees
    ]
    print_table(("max error", "confidence", "answer from", "answered", "wrong"), rows)
    for reason, count in found.left_out.items():
        print_notice(f"left out: {count:,} questions, because {reason}")
    for each in guarantees:
        if each.threshold is None:
            least = answers_needed(each.max_error, each.confidence)
            print_notice(
                f"no threshold met a largest error of {each.max_error:g}: it takes at least {least:,} answers when all "
                "are right, and more when some are wrong"
            )


def _draw(found: RunRiskSample, guarantees: Sequence[Guarantee], file: Path) -> Sequence[Path]:
    from beliefrag.calibration.risk import risk_coverage
    from beliefrag.cli.output import print_notice
    from beliefrag.report.risk_figure import draw_risk_coverage

    if not len(found.points.probability):
        print_notice("no curve: the policy declines every question")
        return ()
    curve = risk_coverage(found.points)
    typer.echo(f"area under the risk-coverage curve: {curve.aurc:.3f}; wrong if all are answered: {curve.risk[-1]:.3f}")
    return draw_risk_coverage(curve, guarantees, file.with_name(f"{file.stem}.risk"))
