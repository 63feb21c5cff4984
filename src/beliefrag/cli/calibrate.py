"""`beliefrag calibrate`: fits probabilities for a model, and makes guarantees from them."""

from __future__ import annotations

import typer

from beliefrag.cli.calibrate_risk import risk

__all__ = ["app"]

app = typer.Typer(help="Calibration: probabilities that mean what they say, for a model.", no_args_is_help=True)
app.command()(risk)


@app.callback()
def _group() -> None:
    """Keeps the command's name needed while it is the only one."""
