"""Carry out `beliefrag study`: print the estimate, ask before many calls, and print what each study found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import typer

from beliefrag.bench.benchmark import PreparedRun, format_duration, format_usage
from beliefrag.bench.plan import Plan
from beliefrag.cli.bench_run import carry_out, is_confirmed
from beliefrag.cli.output import INTERRUPTED, OK, print_notice, safe_line, show_status
from beliefrag.studies.make import PreparedStudies
from beliefrag.types import Usage

__all__ = ["make_studies"]


def make_studies(prepared: PreparedStudies, *, dry_run: bool, yes: bool) -> int:
    """Make the runs that studies need, then each study from the records, then the index.

    Returns:
        The exit code.
    """
    for name, why in prepared.left_out.items():
        print_notice(f"{name} is left out: {why}")
    for name, folder in prepared.reusable.items():
        print_notice(f"{folder} stands in for the run {name}")
    plans = _print_previews(prepared)
    if dry_run:
        return OK
    calls = sum(plan.estimate.calls for plan in plans.values())
    if not yes and not is_confirmed(calls, replay=prepared.spec.replay):
        print_notice("nothing was run")
        return OK
    codes = [OK]

    def play(name: str, planned: PreparedRun) -> bool:
        print_notice(f"run {name}:")
        codes.append(carry_out(planned))
        return codes[-1] != INTERRUPTED

    finished = [name for name, plan in plans.items() if not plan.left]
    recordings = prepared.make_runs(play, finished=finished)
    if recordings is None:
        return INTERRUPTED
    for study in prepared.studies:
        with show_status(f"working out {study.name}"):
            result = prepared.analyse(study, recordings)
        typer.echo(safe_line(study.extension.title))
        for sentence in result.findings:
            typer.echo(safe_line(f"  {sentence}"))
        print_notice(f"written: {prepared.out / study.name / 'index.html'}")
    prepared.write_index()
    print_notice(f"written: {prepared.out / 'index.html'}")
    if max(codes) != OK:
        print_notice("some episodes failed; the pages say how many are missing, and the same command tries them again")
    return max(codes)


def _print_previews(prepared: PreparedStudies) -> dict[str, Plan]:
    plans: dict[str, Plan] = {}
    previews = prepared.previews()
    while True:
        with show_status("opening datasets and model"):
            found = next(previews, None)
        if found is None:
            break
        name, preview = found
        print_notice(f"run {name}:")
        for line in preview.lines:
            print_notice(line)
        plans[name] = preview.plan
    if len(plans) > 1:
        _print_total(list(plans.values()))
    return plans


def _print_total(plans: Sequence[Plan]) -> None:
    methods, judge = (_add_usage(getattr(plan.estimate, name) for plan in plans) for name in ("methods", "judge"))
    words = f"{format_usage(methods)}, {format_duration(sum(plan.estimate.seconds for plan in plans))}"
    episodes = sum(len(plan.to_play) for plan in plans)
    print_notice(
        f"all runs together: {episodes:,} episodes to play; {words}"
        + (f"; judge {format_usage(judge)}" if judge.calls else "")
    )


def _add_usage(usages: Iterable[Usage]) -> Usage:
    each = list(usages)
    return Usage(**{name: sum(getattr(u, name) for u in each) for name in ("calls", "tokens_in", "tokens_out")})
