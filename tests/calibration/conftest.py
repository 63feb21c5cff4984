from __future__ import annotations

import pytest

from beliefrag.calibration import fitting


@pytest.fixture(autouse=True)
def _few_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    # The intervals of coefficients take most of the time, and most tests are not about them.
    monkeypatch.setattr(fitting, "RESAMPLES", 12)
