"""`beliefrag calibrate` and `tune`: collect states, fit probabilities to them, and choose thresholds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import beliefrag
from beliefrag.cli import options, output
from beliefrag.cli.options import GivenSettings, argument, join_paths, option, with_settings
from beliefrag.errors import SettingsError
from beliefrag.feedback import FEEDBACK

app = typer.Typer(
    help="Fit calibrations: probabilities that mean what they say, for a model and documents.",
    no_args_is_help=True,
)


@app.command()
@with_settings("model", "base_url", "method")
def auto(
    further: options.FurtherPaths = None,
    *,
    docs: options.OwnDocs = None,
    out: Annotated[Path | None, option("FILE", "Where to write it; by default where 'ask' finds it.")] = None,
    n: Annotated[int, option("N", "How many questions to make.", "--n", "-n", min=10)] = 80,
    feedback: Annotated[Path, option("FILE", "Verdicts from the page; by default used if there.")] = FEEDBACK,
    seed: Annotated[int, option("N", "Another seed asks about other passages.")] = 0,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    given: GivenSettings,
) -> None:
    """Make questions from your documents, ask them, and fit a calibration for your model to the results.

    It is then used for these documents. After an interruption, the same command resumes.

    Example: beliefrag calibrate auto --docs handbook/ --model my-model --base-url http://localhost:8000/v1
    """
    paths = join_paths(docs, further)
    if not paths:
        raise SettingsError("No documents to make questions from.", remedy="Name them with --docs.")
    settings = given.load()

    def confirm(plan: str) -> bool:
        output.print_notice(f"estimate: {plan}")
        return not dry_run and (yes or output.is_confirmed("Ask the model?"))

    with output.show_progress("calibrating") as show_:
        found = beliefrag.calibrate.auto(
            paths,
            out=out,
            n=n,
            feedback=feedback if feedback != FEEDBACK or feedback.exists() else None,
            seed=seed,
            settings=settings,
            confirm=confirm,
            progress=lambda done, wanted: show_(done, wanted, f"{done} of {wanted} questions made"),
            run_progress=lambda run: show_(run.done, run.plan.left, f"{run.done} of {run.plan.left} questions asked"),
        )
    if found is None:
        output.print_notice("nothing was asked")
        return
    output.print_report(found.tables)
    output.print_warnings(found.warnings)
    output.print_written(found.files)
    use = "it is used for these documents from now on; delete the file to end that"
    output.print_notice(f"use it with --set calibration={out}" if out else use)


@app.command()
@with_settings("model", "base_url", "profile")
def collect(
    further: options.FurtherPaths = None,
    *,
    out: options.Out,
    asked: options.LabelledQuestions,
    part: Annotated[list[str] | None, option("NAME", "Only this part: xfit, xsel or xhold. Repeatable.")] = None,
    method: Annotated[str, option("NAME", "The method whose states are recorded: beliefrag or lean.")] = "beliefrag",
    reads_only: Annotated[bool, typer.Option("--reads-only", hidden=True)] = False,
    how: options.RunOptions,
    no_judge: options.NoJudge = False,
    given: GivenSettings,
) -> None:
    """Record the states of a method on labelled questions, and the answer at each. Run it again to resume.

    Example: beliefrag calibrate collect --questions asked.csv --docs notes --out runs/mine
    """
    from beliefrag.bench.setup import collection_spec
    from beliefrag.cli.bench import carry_out_run
    from beliefrag.report.calibration_tables import state_counts_table
    from beliefrag.runs.partitions import Partition
    from beliefrag.runs.states import read_trajectories

    settings = given.load()
    folders, own = asked.read(further)
    if unknown := set(part or ()) - set(Partition):
        raise typer.BadParameter(f"{min(unknown)!r} is not xfit, xsel or xhold", param_hint="--part")
    spec = how.make_spec(settings, judge=not no_judge)
    spec = replace(spec, data=folders, datasets=own, parts=tuple(map(Partition, part or ())))
    states = collection_spec(spec, method=method, searches=not reads_only)
    code = carry_out_run(settings, states, out, yes=how.yes)
    if not how.dry_run:
        table = state_counts_table(read_trajectories(out)[1])
        output.print_table(table.headings, table.texts)
    raise typer.Exit(code)


@app.command()
def fit(
    runs: Annotated[list[Path], argument("RUN...", "Folders with recorded states.")],
    *,
    select: Annotated[list[Path] | None, option("RUN", "Choose on this run, fit on the others. Repeatable.")] = None,
    label: options.Label = None,
    name: Annotated[str | None, option("NAME", "The name of the calibration; by default that of the model.")] = None,
    out: Annotated[Path | None, option("FILE", "Where to write it; by default RUN/calibration.json.")] = None,
) -> None:
    """Fit answerability and retrieval value to recorded states: fitted on xfit, chosen on xsel, measured on xhold.

    No model is asked. Example: beliefrag calibrate fit runs/train --select runs/dev --out mine.json
    """
    path = out or runs[0] / "calibration.json"
    found = beliefrag.calibrate.fit(runs, select=select or (), label=label, name=name, out=path)
    output.print_report(found.tables)
    output.print_warnings(found.warnings)
    output.print_notice(f"written: {path}; use it with --set calibration={path}")


@app.command()
def show(
    artifact: Annotated[str | None, argument("NAME|FILE", "A calibration; without it, the shipped ones.")] = None,
    as_json: options.Json = False,
) -> None:
    """Show what a calibration was fitted on, how good it is on held-out questions, and its coefficients.

    Example: beliefrag calibrate show qwen2.5-coder-1.5b
    """
    found = beliefrag.calibrate.show(artifact)
    if as_json:
        texts = [each.model_dump_json(indent=2) for each in found.found]
        typer.echo(texts[0] if artifact else f"[{', '.join(texts)}]")
    else:
        output.print_report(found.tables)


@app.command()
@with_settings("confidence")
def risk(
    calibration: Annotated[str, argument("CALIBRATION", "The file of a calibration.")],
    run: Annotated[Path, argument("RUN", "A run with recorded states.")],
    *,
    max_error: Annotated[list[float], option("SHARE", "The largest share of wrong answers. Repeatable.")],
    label: options.Label = None,
    out: Annotated[Path | None, option("FILE", "Where to save it; by default in the calibration's file.")] = None,
    given: GivenSettings,
) -> None:
    """Choose the lowest answerability to answer at so that at most a given share of the answers is wrong.

    Example: beliefrag calibrate risk mine.json runs/states --max-error 0.1 --max-error 0.2
    """
    from beliefrag.calibration import shipped_artifacts

    if out is None and calibration in shipped_artifacts():
        raise SettingsError(
            f"{calibration} comes with the package and stays as it is.", remedy="Name a file with --out."
        )
    settings = given.read()
    found = beliefrag.calibrate.risk(
        calibration,
        run,
        max_error=max_error,
        confidence=settings.confidence,
        label=label,
        thresholds=settings.thresholds,
        out=out or Path(calibration).expanduser(),
    )
    output.print_report(found.tables)
    for warning in found.warnings:
        output.print_notice(warning)
    output.print_written(found.files)


@with_settings("calibration", "borrow")
def tune(
    run: Annotated[Path, argument("RUN", "A run of 'beliefrag calibrate collect'.")],
    *,
    max_tokens: Annotated[float | None, option("N", "The best F1 at no more tokens per question.", min=0)] = None,
    min_f1: Annotated[float | None, option("X", "The fewest tokens at no less F1.", "--min-f1", min=0, max=1)] = None,
    measure: Annotated[str, option("NAME", "Use f1, exact_match, cover or judge in place of F1.")] = "f1",
    answer: Annotated[list[float] | None, option("X", "Answer thresholds to try. Repeatable.", min=0, max=1)] = None,
    retrieval_value: Annotated[list[float] | None, option("X", "Retrieval thresholds to try.", min=0, max=1)] = None,
    out: Annotated[Path | None, option("FILE", "The CSV file to write; by default tune.csv in the run.")] = None,
    given: GivenSettings,
) -> None:
    """Choose thresholds from a run's recorded states: the best answers for a token budget, or the cheapest good ones.

    Example: beliefrag tune runs/states --max-tokens 4000
    """
    from beliefrag.report.table import format_number

    settings = given.read()
    with output.show_status("trying thresholds"):
        found = beliefrag.calibrate.tune(
            run,
            max_tokens=max_tokens,
            min_quality=min_f1,
            measure=measure,
            answer=answer,
            retrieval_value=retrieval_value,
            calibration=settings.calibration,
            borrow=settings.borrow,
            out=out or run / "tune.csv",
        )
    output.print_warnings(found.warnings)
    (table,) = found.tables
    # The frontier, the current thresholds and what was checked; the file has all settings.
    output.print_table(table.headings, [row for row in table.texts if row[1]])
    tuning = found.found
    if tuning.differences:
        quality, tokens = tuning.differences
        typer.echo(f"chosen minus current on xhold: {format_number(quality)}, {format_number(tokens, ',.0f')} tokens")
    if tuning.chosen:
        typer.echo(f"\nFor the settings file:\n{tuning.to_toml()}")
    output.print_written(found.files)
    if tuning.chosen is None and (max_tokens is not None or min_f1 is not None):
        output.print_notice("error: no setting reaches the goal")
        raise typer.Exit(output.FAILED)
