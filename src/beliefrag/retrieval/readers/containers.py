"""Files in files: zip archives, and mails with their attachments."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from beliefrag.retrieval.documents import CorpusFile, Document, Unreadable, clean_line, clean_text, printable_path
from beliefrag.retrieval.readers.sections import Outline
from beliefrag.retrieval.readers.web_page import outline_page

_FROM_LINE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From .*\r?\n")


def read_zip(file: CorpusFile) -> Iterator[Document]:
    """Read the files in an archive; hidden ones are passed over."""
    with zipfile.ZipFile(file.content) as parts:
        for part in parts.infolist():
            name = printable_path(part.filename)
            if not part.is_dir() and not any(each.startswith((".", "__MACOSX")) for each in name.split("/")):
                yield from file.read_part(name, partial(parts.read, part), name)


def read_mail(file: CorpusFile) -> Iterator[Document]:
    """Read a mail (.eml) with its attachments."""
    return _read_message(file, file.content.read())


def read_mailbox(file: CorpusFile) -> Iterator[Document]:
    """Read the mails of an .mbox file."""
    for number, data in enumerate(filter(None, _FROM_LINE.split(file.content.read())), 1):
        for document in _read_message(file, data):
            yield document.put_inside(f"message {number}")


def _read_message(file: CorpusFile, data: bytes) -> Iterator[Document]:
    message = BytesParser(policy=policy.default).parsebytes(data)
    heads = {name: clean_line(str(message[name] or "")) for name in ("From", "To", "Cc", "Date")}
    if not any(heads.values()):
        raise Unreadable("is not a mail")
    metadata = [("author", heads["From"])]
    with suppress(ValueError, TypeError):
        metadata.append(("date", parsedate_to_datetime(heads["Date"]).date().isoformat()))
    items = [*(f"{name}: {value}\n" for name, value in heads.items() if value), "\n", *_read_body(message)]
    yield file.document(clean_line(str(message["Subject"] or "")), items, metadata=tuple(metadata))
    for part in message.iter_attachments():
        name = clean_line(part.get_filename() or "").replace("/", "_")
        if name or part.get_content_type() == "message/rfc822":
            name = name or "message.eml"
            for document in file.read_part(name, partial(_content, part), f"attachment {name}"):
                yield replace(document, metadata=(*metadata, *document.metadata))


def _content(part: Any) -> bytes:
    own = part.get_payload(decode=True)
    return own if isinstance(own, bytes) else b"".join(bytes(each) for each in part.iter_parts())


def _read_body(message: EmailMessage) -> list[str]:
    if (body := message.get_body(("plain", "html"))) is None:
        return []
    try:
        content = str(body.get_content())
    except LookupError:
        content = bytes(body.get_payload(decode=True) or b"").decode("latin-1")
    if body.get_content_subtype() != "html":
        return [clean_text(content)]
    outline = Outline()
    outline_page(content.encode("utf-8", "replace"), outline)
    return [item for item in outline.items() if isinstance(item, str)]
