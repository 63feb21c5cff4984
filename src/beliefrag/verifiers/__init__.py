"""Verifier forms: ways to ask one model call about support, conflict, gap, uncertainty and unhelpful passages.

`structured` is the paper's: floats in JSON. `graded` asks for whole numbers after worked examples, and `probability`
reads the scores from the probabilities of yes/no tokens; both were made for small models.
"""

from __future__ import annotations

from collections.abc import Mapping

from beliefrag.errors import SettingsError
from beliefrag.verifiers.form import VerifierForm
from beliefrag.verifiers.graded import Graded
from beliefrag.verifiers.probability import Probability
from beliefrag.verifiers.structured import Structured

__all__ = ["FORMS", "VerifierForm", "verifier_form"]

FORMS: Mapping[str, VerifierForm] = {form.name: form for form in (Structured(), Graded(), Probability())}


def verifier_form(name: str) -> VerifierForm:
    """The form of that name.

    Raises:
        SettingsError: There is none.
    """
    if name not in FORMS:
        raise SettingsError(f"No verifier form is called {name!r}.", remedy=f"Choose one of {', '.join(FORMS)}.")
    return FORMS[name]
