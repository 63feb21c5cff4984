"""Files in files: zip archives, and mails with their attachments."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from functools import partial
from io import BytesIO
from typing import Any

from beliefrag.retrieval.documents import (
    Complain,
    CorpusFile,
    Document,
    Unreadable,
    clean_line,
    clean_text,
    format_of,
    make_document,
    name_failures,
    printable_path,
    reader_for,
)
from beliefrag.retrieval.readers.sections import Outline
from beliefrag.retrieval.readers.web_page import outline_page

_DEEPEST = 4
_FROM_LINE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From .*\r?\n")


def read_zip(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the files in an archive; hidden ones are passed over."""
    with zipfile.ZipFile(file.content) as parts:
        for part in parts.infolist():
            name = printable_path(part.filename)
            if not part.is_dir() and not any(each.startswith((".", "__MACOSX")) for each in name.split("/")):
                yield from _read_part(file, name, partial(parts.read, part), name, complain)


def read_mail(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a mail (.eml) with its attachments."""
    return _read_message(file, file.content.read(), complain)


def read_mailbox(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the mails of an .mbox file."""
    for number, data in enumerate(filter(None, _FROM_LINE.split(file.content.read())), 1):
        yield from _inside(f"message {number}", _read_message(file, data, complain))


def _read_message(file: CorpusFile, data: bytes, complain: Complain) -> Iterator[Document]:
    message = BytesParser(policy=policy.default).parsebytes(data)
    heads = {name: clean_line(str(message[name] or "")) for name in ("From", "To", "Cc", "Date")}
    if not any(heads.values()):
        raise Unreadable("is not a mail")
    metadata = [("author", heads["From"])]
    with suppress(ValueError, TypeError):
        metadata.append(("date", parsedate_to_datetime(heads["Date"]).date().isoformat()))
    items = [*(f"{name}: {value}\n" for name, value in heads.items() if value), "\n", *_read_body(message)]
    yield make_document(file, clean_line(str(message["Subject"] or "")) or file.stem, items, metadata=tuple(metadata))
    for part in message.iter_attachments():
        name = clean_line(part.get_filename() or "").replace("/", "_")
        if name or part.get_content_type() == "message/rfc822":
            name = name or "message.eml"
            for document in _read_part(file, name, partial(_content, part), f"attachment {name}", complain):
                yield replace(document, metadata=(*metadata, *document.metadata))


def _content(part: Any) -> bytes:
    own = part.get_payload(decode=True)
    return own if isinstance(own, bytes) else b"".join(bytes(each) for each in part.iter_parts())


def _read_body(message: EmailMessage) -> list[Any]:
    body = message.get_body(("plain", "html"))
    if body is None:
        return []
    try:
        content = str(body.get_content())
    except LookupError:
        content = bytes(body.get_payload(decode=True) or b"").decode("latin-1")
    outline = Outline()
    if body.get_content_subtype() == "html":
        outline_page(content.encode("utf-8", "replace"), outline)
    else:
        outline.add(clean_text(content))
    return [item for item in outline.items() if isinstance(item, str)]


def _read_part(
    file: CorpusFile, name: str, load: Callable[[], bytes], inside: str, complain: Complain
) -> Iterator[Document]:
    """Read a file in another one; one that cannot be read is reported and left out."""
    try:
        if format_of(name) is None:
            raise Unreadable("has a format that is not read")
        if file.depth == _DEEPEST:
            raise Unreadable("is nested in too many archives")
        with name_failures(name):
            part = CorpusFile(f"{file.name}/{name}", file.source, BytesIO(load()), file.depth + 1)
        yield from _inside(inside, reader_for(name)(part, lambda what: complain(f"{name}: {what}")))
    except Unreadable as problem:
        complain(f"{name} {problem.message}")


def _inside(name: str, documents: Iterable[Document]) -> Iterator[Document]:
    for document in documents:
        yield replace(document, inside=", ".join(filter(None, (name, document.inside))))
