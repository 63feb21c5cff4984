"""What indexing does about memory."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from beliefrag.retrieval import IndexWriter
from beliefrag.retrieval.memory import pause_cycle_search
from beliefrag.types import Passage


def test_the_search_for_cycles_is_as_it_was_afterwards() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError, match="stop"), pause_cycle_search():
        assert not gc.isenabled()
        with pause_cycle_search():
            pass
        assert not gc.isenabled(), "who did not switch it off does not switch it on"
        raise ValueError("stop")
    assert gc.isenabled()


def test_documents_are_read_with_the_search_for_cycles_on(tmp_path: Path) -> None:
    seen = []

    def read() -> Iterator[Passage]:
        for number in range(3):
            seen.append(gc.isenabled())
            yield Passage(str(number), "Title", "Text.")

    with IndexWriter(tmp_path / "index") as writer:
        writer.add(read())
        writer.put_source("file", read())
        writer.write_graph()
    assert seen == [True] * 6 and gc.isenabled()
