"""What a run was made with, as this version's own types: a run of another version is told as that, and not misread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from beliefrag._version import __version__
from beliefrag.policy import Thresholds
from beliefrag.runs.errors import RunError
from beliefrag.settings import Settings
from beliefrag.types import Budget

if TYPE_CHECKING:
    from beliefrag.runs.record import RunRecord

__all__ = ["budget_of", "made_by_another_version", "settings_of", "thresholds_of"]


def made_by_another_version(versions: object, what: str) -> RunError:
    """What to say of a run that has what this version does not know.

    Args:
        versions: As `run.json` has them, if it has them.
        what: This version does not know.
    """
    named = versions.get("beliefrag", "none") if isinstance(versions, Mapping) else "none"
    return RunError(
        f"The run was made by another version of beliefrag (run.json names {named!s:.40}, this is {__version__}): "
        f"it has {what}.",
        remedy="Read it with that version, or make the run again with this one.",
    )


def budget_of(run: RunRecord) -> Budget:
    """What each of the run's episodes could spend.

    Raises:
        RunError: Another version wrote it, with a limit that is not known here, or it is no budget.
    """
    try:
        return Budget(**_known("budget", run.budget, Budget(), run))
    except ValueError as error:
        raise RunError(f"The run's budget cannot be used: {error}.") from None


def thresholds_of(run: RunRecord) -> Thresholds:
    """The thresholds that the run decided with.

    Raises:
        RunError: Another version wrote it, with a threshold that is not known here, or they are none.
    """
    try:
        return Thresholds(**_known("thresholds", run.thresholds, Thresholds(), run))
    except ValueError as error:
        raise RunError(f"The run's thresholds cannot be used: {error}.") from None


def settings_of(run: RunRecord) -> Settings:
    """The settings as they were resolved when the run began.

    Raises:
        RunError: Another version wrote them, with a setting that is not known here.
    """
    try:
        return Settings.model_validate(dict(run.settings))
    except ValidationError as error:
        name = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"])
        raise made_by_another_version(run.versions, f"the setting {name!r:.60}, which cannot be used here") from None


def _known(what: str, values: Mapping[str, Any], ours: object, run: RunRecord) -> dict[str, Any]:
    for name in values:
        if not hasattr(ours, name):
            raise made_by_another_version(run.versions, f"{what}.{name:.40}, which is not known here")
    return dict(values)
