from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.serving import ANSWER, QUESTION, REPLY, SURE, Served, opened, served


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with the defaults and a model that is sure; shared, because nothing that it is asked changes it."""
    more = (
        {"purpose": purpose, "reply": reply, "repeat": True}
        for purpose, reply in (("standalone", QUESTION), ("write", f"It is {ANSWER}."))
    )
    with served(*opened(tmp_path_factory.mktemp("plain"), SURE, REPLY, *more)) as server:
        yield server
