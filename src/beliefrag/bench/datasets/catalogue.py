"""All published formats by name."""

from __future__ import annotations

from beliefrag.bench.datasets.format import Format
from beliefrag.bench.datasets.holobench import HOLOBENCH
from beliefrag.bench.datasets.hotpotqa import HOTPOTQA
from beliefrag.bench.datasets.musique import MUSIQUE
from beliefrag.bench.datasets.nq_open import NQ_OPEN
from beliefrag.bench.datasets.popqa import POPQA
from beliefrag.bench.datasets.rgb import RGB
from beliefrag.bench.datasets.triviaqa import TRIVIAQA
from beliefrag.bench.datasets.two_wiki import TWO_WIKI
from beliefrag.errors import SettingsError

__all__ = ["FORMATS", "format_named"]

FORMATS: dict[str, Format] = {
    known.name: known for known in (HOTPOTQA, TWO_WIKI, MUSIQUE, NQ_OPEN, TRIVIAQA, POPQA, RGB, HOLOBENCH)
}


def format_named(name: str) -> Format:
    """The format of this name.

    Raises:
        SettingsError: There is none.
    """
    if name not in FORMATS:
        raise SettingsError(f"There is no dataset format {name!r}.", remedy=f"Known: {', '.join(FORMATS)}.")
    return FORMATS[name]
