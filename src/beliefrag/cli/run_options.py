"""Options of the commands that ask many questions: which questions, how to run them, and who judges the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from beliefrag.errors import SettingsError

__all__ = [
    "JUDGE",
    "WHAT",
    "Concurrency",
    "Data",
    "DryRun",
    "JudgeBaseUrl",
    "JudgeModel",
    "N",
    "NoJudge",
    "Out",
    "Replay",
    "Seed",
    "Split",
    "Yes",
    "check_judge_options",
]

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
        help="The run's folder, made or gone on with.",
        rich_help_panel=WHAT,
        show_default=False,
    ),
]
N = Annotated[
    int | None,
    typer.Option("--n", metavar="N", min=1, help="Questions of each dataset; all by default.", rich_help_panel=WHAT),
]
Seed = Annotated[
    int, typer.Option(metavar="S", help="Which questions are drawn; the same everywhere.", rich_help_panel=WHAT)
]
Split = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Questions of this split only; can be given again.", rich_help_panel=WHAT),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most calls at a time; the server's own rate is found. 1 for an embedded model.",
        rich_help_panel=_HOW,
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", metavar="", help="Say what is ahead, and end.", rich_help_panel=_HOW)
]
Yes = Annotated[bool, typer.Option("--yes", metavar="", help="Do not ask before a large run.", rich_help_panel=_HOW)]
Replay = Annotated[
    bool,
    typer.Option(
        "--replay", metavar="", help="Take every reply from the cache, and ask no model.", rich_help_panel=_HOW
    ),
]
NoJudge = Annotated[
    bool,
    typer.Option(
        "--no-judge",
        metavar="",
        help="Leave the judge out; the same command without it judges later.",
        rich_help_panel=JUDGE,
    ),
]
JudgeModel = Annotated[
    str | None, typer.Option(metavar="NAME", help="The judge; by default the run's model.", rich_help_panel=JUDGE)
]
JudgeBaseUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="The judge's server; by default the run's.", rich_help_panel=JUDGE)
]


def check_judge_options(no_judge: bool, *named: str | None) -> None:
    """Refuses a judge that is named and left out at once."""
    if no_judge and any(named):
        raise SettingsError("--no-judge leaves out the judge that was named.", remedy="Give one or the other.")
