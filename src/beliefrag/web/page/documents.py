"""Opens the document of a passage. It is put together from the passages of the index: no file is ever opened."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from beliefrag.errors import RetrievalError
from beliefrag.retrieval import Bm25Index, Retriever
from beliefrag.types import Passage
from beliefrag.web.answers import remove_folders
from beliefrag.web.page.episodes import AskedEpisode
from beliefrag.web.view.schema import NotAvailable


class DocumentPassage(BaseModel):
    """A piece of a document."""

    id: str
    title: str
    text: str
    place: str = Field(description="page, row or lines in its source; empty where they are not known")


class DocumentBody(BaseModel):
    """A document, in the passages that the index holds of it."""

    source: str = Field(description="the file or address that it came from, without the server's folders")
    whole: bool = Field(description="whether these are all passages of the document")
    passages: list[DocumentPassage]


def read_document(retriever: Retriever, asked: AskedEpisode, passage_id: str) -> DocumentBody:
    """Return the document that a passage of an episode belongs to.

    Args:
        retriever: What was searched. Where it holds no index, only the passages that it returned are known.
        asked: The episode. Only what it has found can be opened.
        passage_id: One of its passages.
    """
    known = asked.record.passages if asked.record else {}
    passage = known.get(passage_id)
    if passage is None:
        raise NotAvailable("The answer has no such passage.")
    index = getattr(retriever, "index", retriever)
    if isinstance(index, Bm25Index):
        try:
            found, whole = index.read_document(passage_id)
            return _body(found, whole, passage)
        except RetrievalError:
            # The index was replaced by a newer version since the question was asked.
            pass
    same = [each for each in known.values() if each.source == passage.source and passage.source]
    return _body(same or [passage], False, passage)


def _body(passages: Sequence[Passage], whole: bool, passage: Passage) -> DocumentBody:
    shown = [DocumentPassage(id=each.id, title=each.title, text=each.text, place=each.place) for each in passages]
    return DocumentBody(source=remove_folders(passage.source), whole=whole, passages=shown)
