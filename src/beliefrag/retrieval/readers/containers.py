"""Files in files: zip archives, and mails with their attachments."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import parsedate_to_datetime
from io import BytesIO

from beliefrag.retrieval.documents import (
    Complain,
    CorpusFile,
    Document,
    Unreadable,
    clean_line,
    clean_text,
    format_of,
    printable_path,
    read_content,
    reader_for,
)
from beliefrag.retrieval.readers.text_files import Outline
from beliefrag.retrieval.readers.web_page import outline_page, parse_page

_DEEPEST = 4
_FROM_LINE = re.compile(rb"^From .*\r?\n", re.MULTILINE)


def read_zip(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the files in an archive; hidden ones are passed over."""
    try:
        with zipfile.ZipFile(file.content) as parts:
            for part in parts.infolist():
                name = printable_path(part.filename)
                if part.is_dir() or any(each.startswith((".", "__MACOSX")) for each in name.split("/")):
                    continue
                try:
                    content = parts.read(part) if format_of(name) else b""
                except (zipfile.BadZipFile, RuntimeError, NotImplementedError, zlib.error, EOFError):
                    complain(f"{name} is broken or encrypted")
                    continue
                yield from _read_part(file, name, content, name, complain)
    except (zipfile.BadZipFile, ValueError) as problem:
        raise Unreadable("is a broken zip archive") from problem


def read_mail(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read a mail (.eml) with its attachments."""
    yield from _read_message(file, read_content(file), complain)


def read_mailbox(file: CorpusFile, complain: Complain) -> Iterator[Document]:
    """Read the mails of an .mbox file."""
    data = read_content(file)
    starts = [
        found.start() for found in _FROM_LINE.finditer(data) if data[: found.start()].endswith((b"\n\n", b"\n\r\n"))
    ]
    ends = [*starts[1:], len(data)] if starts and not starts[0] else [*starts, len(data)]
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False), 1):
        for document in _read_message(file, _FROM_LINE.sub(b"", data[start:end], count=1), complain):
            yield replace(document, inside=", ".join(filter(None, (f"message {number}", document.inside))))


def _read_message(file: CorpusFile, data: bytes, complain: Complain) -> Iterator[Document]:
    message = BytesParser(policy=policy.default).parsebytes(data)
    heads = [(name, clean_line(str(message[name] or ""))) for name in ("From", "To", "Cc", "Date")]
    if not any(value for _, value in heads):
        raise Unreadable("is no mail")
    metadata = [("author", heads[0][1])]
    with suppress(ValueError, TypeError):
        metadata.append(("date", parsedate_to_datetime(heads[3][1]).date().isoformat()))
    title = clean_line(str(message["Subject"] or "")) or file.stem
    head = "\n".join(f"{name}: {value}" for name, value in heads if value)
    text = f"{head}\n\n{_read_body(message)}"
    yield Document(file.name, title, text, file.source, metadata=tuple(metadata))
    for part in message.iter_attachments():
        name = clean_line(part.get_filename() or "").replace("/", "_")
        if name or part.get_content_type() == "message/rfc822":
            own = part.get_payload(decode=True)
            content = own if isinstance(own, bytes) else b"".join(bytes(each) for each in part.iter_parts())
            name = name or "message.eml"
            for document in _read_part(file, name, content, f"attachment {name}", complain):
                yield replace(document, metadata=(*metadata, *document.metadata))


def _read_body(message: EmailMessage) -> str:
    body = message.get_body(("plain", "html"))
    if body is None:
        return ""
    try:
        content = str(body.get_content())
    except LookupError:
        content = bytes(body.get_payload(decode=True) or b"").decode("latin-1")
    if body.get_content_subtype() != "html":
        return clean_text(content)
    outline = Outline()
    outline_page(parse_page(content.encode("utf-8", "replace")), outline)
    return outline.whole_text()


def _read_part(file: CorpusFile, name: str, content: bytes, inside: str, complain: Complain) -> Iterator[Document]:
    """Read a file in another one; one that cannot be read is reported and left out."""
    if format_of(name) is None:
        complain(f"{name} has a format that is not read")
        return
    part = CorpusFile(f"{file.name}/{name}", file.source, BytesIO(content), file.depth + 1)
    try:
        if part.depth > _DEEPEST:
            raise Unreadable("lies in too many archives")
        for document in reader_for(name)(part, lambda what: complain(f"{name}: {what}")):
            yield replace(document, inside=", ".join(filter(None, (inside, document.inside))))
    except Unreadable as problem:
        complain(f"{name} {problem.message}")
