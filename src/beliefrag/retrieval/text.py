"""Turns bytes and file names of unknown origin into text that is safe to store, show and search."""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
from contextlib import suppress
from pathlib import Path, PurePath

from beliefrag.retrieval.document import Unreadable

__all__ = [
    "LARGEST_FILE",
    "clean_line",
    "clean_text",
    "decode",
    "detect_encoding",
    "make_storable",
    "printable_path",
    "read_limited",
]

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes of a file that is read whole. Tables of texts (csv, jsonl) are read row by row and have no limit."""

# UTF-32 comes before UTF-16, whose mark is the beginning of its own.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufeff\ud800-\udfff]")
_LONGEST_LINE = 300
_SAMPLE = 256 * 1024


def detect_encoding(start: bytes, *, whole: bool = True) -> str:
    """Says how text is encoded: by its mark, else UTF-8, else the Windows encoding of western Europe.

    Args:
        start: The text's first bytes.
        whole: Whether these are all of them; otherwise a character may be cut at the end.

    Raises:
        Unreadable: These bytes are not text.
    """
    for mark, encoding in _MARKS:
        if start.startswith(mark):
            return encoding
    if b"\0" in start:
        raise Unreadable("is binary, or text in an encoding without a byte-order mark")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, whole)
    except UnicodeDecodeError:
        return _guess_encoding(start[:_SAMPLE])
    return "utf-8"


def _guess_encoding(sample: bytes) -> str:
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
    if controls * 50 > len(sample):
        raise Unreadable("is binary, not text")
    text = sample.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore")) - broken
    # A few broken characters among many good ones are damage, and no reason to misread all the others.
    return "utf-8" if broken * 4 < beyond_ascii else "cp1252"


def decode(data: bytes, declared: str = "") -> str:
    """Gives bytes as clean text.

    Args:
        data: The bytes.
        declared: The encoding that the file claims to have. It is believed where neither a byte-order mark nor valid
            UTF-8 says otherwise.

    Raises:
        Unreadable: They are not text.
    """
    encoding = detect_encoding(data)
    if encoding == "cp1252" and declared:
        with suppress(LookupError):
            return clean_text(data.decode(declared, "replace"))
    return clean_text(data.decode(encoding, "replace"))


def make_storable(text: str) -> str:
    """Gives text letter for letter, but without control characters and halves of surrogate pairs."""
    return _UNSTORABLE.sub(lambda found: "\ufffd" if "\ud800" <= found[0] <= "\udfff" else " ", text)


def clean_text(text: str) -> str:
    """Gives storable text with plain line ends, and with accents composed (NFC)."""
    return unicodedata.normalize("NFC", make_storable(text.replace("\r\n", "\n").replace("\r", "\n")))


def clean_line(text: str) -> str:
    """Gives text as one short clean line, for a title."""
    return " ".join(clean_text(text).split())[:_LONGEST_LINE].rstrip()


def read_limited(path: Path) -> bytes:
    """Gives a whole file.

    Raises:
        Unreadable: It is empty or very large.
    """
    with path.open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise Unreadable(f"is larger than {LARGEST_FILE >> 20} MB; split it, or turn it into jsonl")
    if not data.strip():
        raise Unreadable("is empty")
    return data


def printable_path(path: str | PurePath) -> str:
    r"""Gives a path as printable text; two different paths never give the same text.

    Bytes that are not UTF-8 and control characters (a newline, a terminal's escape) become `\xNN` or `\uNNNN`. A
    backslash that stands in a name itself is doubled, which is what keeps the result unambiguous.
    """
    text = os.fspath(path)
    if os.sep == "\\":
        text = text.replace("\\", "/")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
