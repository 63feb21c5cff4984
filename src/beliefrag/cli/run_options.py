"""Options of the commands that ask many questions: which questions, how to run them, and who judges the answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.bench.setup import RunSpec
    from beliefrag.settings import Settings

__all__ = [
    "JUDGE",
    "WHAT",
    "Data",
    "JudgeOptions",
    "NoJudge",
    "On",
    "Out",
    "ReadsOnly",
    "RunOptions",
    "SampleOptions",
    "check_judge_options",
    "ensure_run_weights",
    "make_run_spec",
]

# What the functions need is imported when they are called, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

WHAT = "What to run"
_HOW = "How to run it"
JUDGE = "Judge"

Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data",
        metavar="DIR...",
        help="Datasets in the common form; see 'beliefrag data import'.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="RUN",
        help="The run's folder: a new one is made, and a run in it goes on.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="PLACE",
        help="ray or ray:ADDRESS: use the workers of a Ray cluster, which 'ray' alone starts on this machine.",
        rich_help_panel=_HOW,
        show_default=False,
    ),
]
N = Annotated[
    int | None,
    typer.Option(
        "--n",
        metavar="N",
        min=1,
        help="How many questions of each dataset are asked; all by default.",
        rich_help_panel=WHAT,
    ),
]
ReadsOnly = Annotated[
    bool,
    typer.Option(
        "--no-searches",
        metavar="",
        help="With lean: read once and make no move, in less than half of the time. What searches are worth is then "
        "not fitted.",
        rich_help_panel=WHAT,
    ),
]
NoJudge = Annotated[
    bool,
    typer.Option(
        "--no-judge",
        metavar="",
        help="Leave the judge out. The same command without --no-judge judges later.",
        rich_help_panel=JUDGE,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    """Which questions of the datasets are asked."""

    n: N = None
    seed: Annotated[
        int,
        typer.Option(
            metavar="S",
            help="The seed by which questions are drawn. The same seed draws the same questions everywhere.",
            rich_help_panel=WHAT,
        ),
    ] = 0
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Questions of this split only; can be given again.", rich_help_panel=WHAT),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is carried out."""

    concurrency: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="The most calls at a time. By default 1 for an embedded model and 16 for a server, whose own rate is "
            "found below that.",
            rich_help_panel=_HOW,
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what is ahead, and end.", rich_help_panel=_HOW)
    ] = False
    yes: Annotated[
        bool, typer.Option("--yes", metavar="", help="Do not ask before a large run.", rich_help_panel=_HOW)
    ] = False
    replay: Annotated[
        bool,
        typer.Option(
            "--replay", metavar="", help="Take every reply from the cache, and ask no model.", rich_help_panel=_HOW
        ),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Which model judges the answers."""

    judge_model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model that judges; by default the run's model.", rich_help_panel=JUDGE),
    ] = None
    judge_base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The server of the judge; by default the run's server.", rich_help_panel=JUDGE
        ),
    ] = None

    @property
    def is_named(self) -> bool:
        """Whether a judge was named, other than the run's model."""
        return bool(self.judge_model or self.judge_base_url)


def make_run_spec(sample: SampleOptions, run: RunOptions, judge: JudgeOptions, *, judged: bool) -> RunSpec:
    """Gives the specification of a run as the options say, without datasets and methods."""
    from beliefrag.bench.setup import RunSpec

    return RunSpec(
        n=sample.n,
        seed=sample.seed,
        splits=tuple(sample.split or ()),
        judge=judged,
        judge_model=judge.judge_model,
        judge_base_url=judge.judge_base_url,
        replay=run.replay,
        preview=run.dry_run,
    )


def ensure_run_weights(settings: Settings, run: RunOptions, judge: JudgeOptions) -> None:
    """Downloads the weights that a run lacks, after asking. A preview and a replay need none."""
    from beliefrag.cli.weights import ensure_weights

    if run.replay or run.dry_run:
        return
    ensure_weights(settings.model, agreed=run.yes)
    if judge.judge_model:
        ensure_weights(judge.judge_model, agreed=run.yes)


def check_judge_options(no_judge: bool, judge: JudgeOptions) -> None:
    """Refuses a judge that is named and left out at once."""
    if no_judge and judge.is_named:
        raise SettingsError("--no-judge leaves out the judge that was named.", remedy="Give one or the other.")
