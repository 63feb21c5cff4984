"""Opens a new version of the index while the server runs.

An open index is a view of one moment. The server looks every few seconds whether its folder has a newer version, opens
that one beside the old one, and uses it for the next questions. Running episodes finish on the old one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from beliefrag.engine.assembly import Assembly, reopen_passages
from beliefrag.errors import BeliefRAGError, CorpusError
from beliefrag.retrieval.ledger import IndexIncomplete, Snapshot, read_snapshot
from beliefrag.retrieval.passage_source import PassageSource
from beliefrag.web.request_log import mask_credentials
from beliefrag.web.service import AnswerService

__all__ = ["IndexReloader", "ReloadBody"]

_log = logging.getLogger(__name__)
_CHECK_SECONDS = 5.0
"""How often the folder of the index is looked at."""


class ReloadBody(BaseModel):
    """What reloading did."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"changed": True, "corpus": "b1a0c2d3e4f50617"}]})

    changed: bool = Field(description="whether the passages are other ones than before")
    corpus: str | None = Field(description="the fingerprint of the passages that are searched now")


class IndexReloader:
    """Replaces the passages of a service by their newest version.

    Args:
        service: Whose passages they are.
        docs: The documents, where the server was started with them. Only `reload` reads them again.
        index: The folder of an index, where it was started with one.
    """

    def __init__(
        self, service: AnswerService, *, docs: Sequence[Path] | None = None, index: Path | None = None
    ) -> None:
        self._service = service
        self._docs = docs
        self._index = index
        self._folder = PassageSource(docs=docs, index=index).folder
        self._version = self._read_version()
        self._lock = asyncio.Lock()

    async def reload(self) -> ReloadBody:
        """Opens the passages again; documents are read again where they have changed.

        Raises:
            BeliefRAGError: They cannot be opened. The service then keeps the old ones.
        """
        async with self._lock:
            service = self._service
            before = _corpus(service.assembly)
            version = await asyncio.to_thread(self._read_version)
            service.replace_passages(await asyncio.to_thread(self._open))
            # Documents may have been read meanwhile, which makes a version of its own.
            self._version = await asyncio.to_thread(self._read_version) if self._docs else version
            corpus = _corpus(service.assembly)
            _log.info("index reloaded", extra={"fields": {"changed": corpus != before, "corpus": corpus}})
            return ReloadBody(changed=corpus != before, corpus=corpus)

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Looks for new versions while it is entered."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        failed: Snapshot | None = None
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            version = await asyncio.to_thread(self._read_version)
            if version is None or version in (self._version, failed):
                continue
            try:
                await self.reload()
            except IndexIncomplete:
                # Its writer makes the graph of names last, so the same version can be opened a little later.
                continue
            except Exception as error:
                # Each version is tried once; the server goes on with what it has.
                failed = version
                message = mask_credentials(error.message) if isinstance(error, BeliefRAGError) else ""
                fields = {"cause": type(error).__name__, "error": message}
                _log.warning("the new index cannot be opened; the old one is kept", extra={"fields": fields})

    def _open(self) -> Assembly:
        return reopen_passages(self._service.assembly, docs=self._docs, index=self._index)

    def _read_version(self) -> Snapshot | None:
        """Gives the version of the index on disk; None where there is none, or it is being written."""
        if self._folder is None:
            return None
        with contextlib.suppress(CorpusError, OSError):
            return read_snapshot(self._folder)
        return None


def _corpus(assembly: Assembly) -> str | None:
    return assembly.harness.made_with.get("corpus")
