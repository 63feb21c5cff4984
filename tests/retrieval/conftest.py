from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from beliefrag.retrieval.documents import CorpusFile, Document, read_file
from beliefrag.types import Passage

Read = Callable[[Path], tuple[list[Document], list[str]]]

NOBODY = 65534


@pytest.fixture
def read() -> Read:
    """Reads a file as indexing does, and gives its documents and the complaints."""

    def read_path(path: Path) -> tuple[list[Document], list[str]]:
        complaints: list[str] = []
        with path.open("rb") as content:
            documents = list(read_file(CorpusFile(path.name, str(path), content, complaints.append)))
        return documents, complaints

    return read_path


@pytest.fixture
def shelf() -> list[Passage]:
    """Ten short passages about different things."""
    lines = {
        "Lighthouse": "The lighthouse at Cape Bruna was built in 1871 by the engineer Ada Quill.",
        "Ada Quill": "Ada Quill studied in Lisbon and drew bridges before she built towers.",
        "Cape Bruna": "Cape Bruna is a rocky headland where two currents meet.",
        "Lisbon": "Lisbon lies on the Tagus and has many hills and trams.",
        "Tram": "A tram runs on rails in the street and is driven by electricity.",
        "Electricity": "Electricity lights the lamps of the towers since 1902.",
        "Oil lamp": "An oil lamp burned whale oil before electricity came.",
        "Whale": "The whale was hunted for its oil near the headland.",
        "Harbour": "The harbour below the lighthouse was closed after the storm.",
        "Storm": "The storm of 1911 tore the roof from the keeper's house.",
    }
    return [Passage(f"d{n}", title, text, f"book-{n % 2}.txt") for n, (title, text) in enumerate(lines.items())]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user of the machine may enter, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="beliefrag-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def without_rights() -> Callable[[], AbstractContextManager[None]]:
    """Takes from this process the superuser's right to read and write everything, for a while."""

    @contextmanager
    def restricted() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    return restricted
