"""Options of the commands that serve: who may come in, and how much they may ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "LIMITS",
    "NETWORK",
    "AllowedHost",
    "MaxQuestionChars",
    "MaxRounds",
    "MaxTokens",
    "Places",
    "Queue",
    "Timeout",
    "TokenFile",
]

NETWORK = "Network"
LIMITS = "Limits"

TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Holds the bearer token that clients must send; BELIEFRAG_TOKEN in the environment does too. Needed "
        "unless --host is loopback.",
        rich_help_panel=NETWORK,
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A name that clients may call the server by, besides localhost on loopback.",
        rich_help_panel=NETWORK,
    ),
]
Places = Annotated[int, typer.Option(metavar="N", min=1, help="Questions answered at a time.", rich_help_panel=LIMITS)]
Queue = Annotated[
    int, typer.Option(metavar="N", min=0, help="Questions that wait; more are refused.", rich_help_panel=LIMITS)
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="How long a question may take.", rich_help_panel=LIMITS)
]
MaxQuestionChars = Annotated[
    int, typer.Option(metavar="N", min=1, help="Characters of a question.", rich_help_panel=LIMITS)
]
MaxTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most tokens after which no search begins, whatever a request asks for; by default the setting.",
        rich_help_panel=LIMITS,
    ),
]
MaxRounds = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Most searches, whatever a request asks for; by default the setting.",
        rich_help_panel=LIMITS,
    ),
]
