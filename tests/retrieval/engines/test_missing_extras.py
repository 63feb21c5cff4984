"""An engine whose library is not installed names the extra that brings it."""

from __future__ import annotations

import importlib
import sys

import pytest

from beliefrag.errors import MissingExtra


@pytest.mark.parametrize(
    ("engine", "library", "extra"), [("postgres", "psycopg", "postgres"), ("opensearch", "opensearchpy", "opensearch")]
)
def test_the_message_names_the_extra(engine: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(f"beliefrag.retrieval.engines.{engine}")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [each for each in sys.modules if each == library or each.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf"beliefrag\[{extra}\]"):
        importlib.import_module(f"beliefrag.retrieval.engines.{engine}")
