"""`beliefrag reproduce`: the paper's tables and figures from one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, output
from beliefrag.cli.options import GivenSettings, option, with_settings

if TYPE_CHECKING:
    from beliefrag.bench.benchmark import PreparedRun


@with_settings("model", "base_url")
def reproduce(
    *,
    data: Annotated[Path, option("DIR", "The folder of all datasets.", "--data", envvar="BELIEFRAG_DATA")] = Path(
        "data"
    ),
    out: Annotated[Path, option("DIR", "The output folder. The same command resumes an interrupted run.", "--out")],
    n: Annotated[int, option("N", "Questions of each dataset.", "--n", min=2)] = 100,
    n_factoid: Annotated[int | None, option("N", "Questions of each factoid set.", min=2)] = None,
    fit: Annotated[int, option("N", "HotpotQA train questions to fit on.", min=1)] = 300,
    select: Annotated[int, option("N", "HotpotQA dev questions to choose the fit on.", min=1)] = 156,
    only: Annotated[str, option("PART", "Only table1, qwen (the same beside Qwen3-32B) or studies.")] = "",
    no_judge: options.NoJudge = False,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    given: GivenSettings,
) -> None:
    """Reproduce the paper with a model: calibrate, run nine methods on six sets, make all studies, and report.

    Example: beliefrag reproduce --model gpt-oss:120b --base-url http://localhost:8000/v1 --data data --out paper
    """
    from beliefrag.cli.bench import carry_out
    from beliefrag.cli.model import ensure_weights
    from beliefrag.reproduce import PARTS, Reproduction, describe
    from beliefrag.reproduce import carry_out as carry_out_all

    if only not in PARTS:
        raise typer.BadParameter(f"{only!r} is not table1, qwen or studies", param_hint="--only")
    settings = given.load(profile="paper")
    wanted = Reproduction(settings, data, out, n, n_factoid, fit, select, only, not no_judge)
    with output.show_status("reading datasets"):
        plan = list(describe(wanted))
    for line in plan:
        output.print_notice(line)
    if dry_run or not (yes or output.is_confirmed("Run it?")):
        output.print_notice("nothing was run")
        return
    ensure_weights(settings.model, agreed=yes)

    def play(name: str, planned: PreparedRun) -> bool:
        output.print_notice(f"run {name}:")
        return carry_out(planned) == output.OK

    files, is_complete = carry_out_all(wanted, play)
    output.print_written(files)
    if not is_complete:
        output.print_notice("some episodes failed; the report says how many, and the same command tries them again")
        raise typer.Exit(output.FAILED)
