"""Makes studies: the runs they need, then each from the records, then the index; and says what came out."""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer

from beliefrag.cli.exit_codes import OK
from beliefrag.cli.output import print_notice, safe_line, show_status
from beliefrag.cli.study_runs import Making, Sources, made, missing
from beliefrag.paths import cache_dir
from beliefrag.studies.catalogue import STUDIES
from beliefrag.studies.errors import StudyError
from beliefrag.studies.files import write_index, write_study
from beliefrag.studies.required_runs import refuse_idle, shared
from beliefrag.studies.study import Study, StudyOptions

__all__ = ["make_studies"]


def make_studies(studies: Sequence[Study], asked: StudyOptions, sources: Sources, making: Making, *, one: bool) -> int:
    """Makes them, and gives the exit code.

    Args:
        studies: Which.
        asked: What was chosen about them.
        sources: Where episodes come from.
        making: How runs are made.
        one: Whether just one study was asked for: what it lacks is then an error, and otherwise a line in the index.

    Raises:
        StudyError: The study, or every study, lacks what it needs.
    """
    refuse_idle(shared(need for study in studies for need in study.needs(asked)), sources.runs)
    left_out = {study.name: why for study in studies if (why := missing(study, asked, sources))}
    if (one and left_out) or len(left_out) == len(studies):
        name, why = next(iter(left_out.items()))
        raise StudyError(f"The study {name} cannot be made: {why}", remedy="Name datasets with --data.")
    for name, why in left_out.items():
        print_notice(f"{name} is left out: {why}")
    chosen = [study for study in studies if study.name not in left_out]
    recordings, code = made((need for study in chosen for need in study.needs(asked)), sources, making)
    if recordings is None:
        return code
    # Matplotlib keeps a list of fonts; it belongs with all else that is kept.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_dir() / "matplotlib"))
    for study in chosen:
        own = {need.name: recordings[need.name] for need in study.needs(asked)}
        with show_status(f"working out {study.name}"):
            result = study.work_out(own, asked)
            write_study(study, result, own, making.out / study.name)
        typer.echo(safe_line(study.title))
        for sentence in result.findings:
            typer.echo(safe_line(f"  {sentence}"))
        print_notice(f"written: {making.out / study.name / 'index.html'}")
    write_index(making.out, tuple(STUDIES.values()), left_out)
    print_notice(f"written: {making.out / 'index.html'}")
    if code != OK:
        print_notice(
            "some episodes failed, and the studies' pages say which are lacking; the same command tries them again"
        )
    return code
