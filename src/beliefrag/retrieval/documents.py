"""Documents and their passages: clean text of any origin, and cut it along sentences and paragraphs."""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from io import BytesIO
from operator import itemgetter
from pathlib import PurePath, PurePosixPath
from typing import Any, BinaryIO

from beliefrag.errors import CorpusError
from beliefrag.retrieval.languages import detect_language
from beliefrag.types import Passage

TARGET = 100
"""Words that a passage is filled up to."""
LONGEST = 150
"""Words that no passage exceeds, except a row that came with an id of its own."""
LONGEST_ROW = 300
"""Words up to which a row with an id of its own stays one passage, as its author meant it."""

_MOST_ANCHORS = 50
_MOST_LINKS = 100
_ENOUGH = 60
_REMNANT = 25
_LONGEST_LINE = 300
_SAMPLE = 256 * 1024
_DEEPEST = 4

# UTF-32 comes before UTF-16, whose mark is the beginning of its own.
_BYTE_ORDER_MARKS = {
    "utf-8-sig": (codecs.BOM_UTF8,),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
_UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufeff\ud800-\udfff]")
_TEXT_CODEC = re.compile(r"(iso|windows|cp|koi|mac|gb|big5|hz|euc|shift|sjis|ms|latin|l\d|tis|utf|ascii|us)[\w-]*")
"""Names of encodings. Python has codecs that do not encode text, some of which take quadratic time."""
_MARKS_OF_LETTER = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    "\u302a-\u302f\u3099\u309a\ufe20-\ufe2f"
)
_MANY_MARKS = re.compile(f"([{_MARKS_OF_LETTER}]{{30}})[{_MARKS_OF_LETTER}]+")
"""More marks than any letter has; composing them takes quadratic time."""
_BLANK_LINES = re.compile(r"\n\s*\n")
_ENDING = re.compile(r"(?<=.)\.[A-Za-z]\w*(?:\.gz)?$")

# Chinese and Japanese put no spaces between words, so a character counts as one; in Thai, Lao, Burmese and Khmer five
# do, with the marks that belong to the last. A run of more than forty characters is not a word in any language, so it
# counts (and may be cut) as several.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_UNSPACED_MARKS = "\u0e31\u0e33-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb3-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u17b4-\u17d3"
_WORD = re.compile(f"[{_CJK}]|[{_UNSPACED}]{{1,5}}[{_UNSPACED_MARKS}]*|[^\\s{_CJK}{_UNSPACED}]{{1,40}}")
_PARAGRAPHS = re.compile(
    r"\n[^\S\n]*+\n\s*+|[\f\u2029]|\n(?=[^\S\n]*+(?:[-*+\u2022\u25aa\u25e6]|\d{1,3}[.)]|#{1,6})\s)"
)
_CLOSING = "\"'\u2019\u201d\u00bb\u203a)\\]}\u300d\u300f\uff09\u3011\u300b"
_OPENING = "\"'\u2018\u201c\u00ab\u2039(\\[{\u00bf\u00a1\u300c\u300e\uff08\u3010\u300a"
_STOPS = ".!?\u2026\u203c\u2047-\u2049\u0589\u061f\u06d4\u0964\u0965\u1362\u1367\u1368"
_END = re.compile(
    # Stops of scripts without spaces end a sentence wherever they stand, others only before a space. A run of stops is
    # looked at once, from its beginning: a page of dots takes no longer than a page of words.
    f"[\u3002\uff01\uff1f\uff61\u104b\u17d4\u17d5\u0f0e]++[{_CLOSING}]*+\\s*+"
    f"|(?<![{_STOPS}])(?P<stop>[{_STOPS}]++)[{_CLOSING}]*+\\s++(?=[{_OPENING}]*+(?P<next>\\S))"
)
_LAST_WORD = re.compile(r"[^\s(\[\"'\u2018\u201c]+\Z")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_ABBREVIATION = re.compile(
    "adm|al|approx|apr|assn|assoc|aug|ave|bldg|blvd|bros|ca|capt|cf|cmdr|co|col|corp|cpl|dec|dept|dist|dr|eds?|eg|esp|est|"
    "etc|feb|gen|gov|govt|hon|ie|inc|incl|jan|jr|jul|jun|lt|ltd|maj|messrs|misc|mlle|mme|mr|mrs|ms|msgr|mts?|nov|oct|ph|"
    "ph\\.d|phd|pres|prof|pvt|rd|refs?|reps?|resp|rev|sens?|sept?|sgt|sr|ste?|supt|tel|trans|univ|viz|vs"
)
_BEFORE_NUMBER = re.compile("art|cap|chap|ch|eqs?|figs?|nos?|op|pp?|para|sect?|vols?|v")


class Unreadable(CorpusError):
    """A file whose text cannot be read; the message is the reason, without the file's name."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An anchor that links lead to (empty for the beginning of a file), or a link with its target and words."""

    anchor: str | None = None
    target: str = ""
    words: str = ""


TextItem = str | int | Mark
"""A part of a text, the number of the line or page that the next part stands on, or an anchor or link."""


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """An open file, from which a reader makes documents."""

    name: str
    """Its printable path below the given folder: the name of the document."""
    source: str
    """Its whole printable path, which people are shown."""
    content: BinaryIO
    complain: Callable[[str], None] = lambda _: None
    """Called by a reader with what it left out, such as a broken line."""
    depth: int = 0
    """In how many archives and mails it lies."""

    @property
    def stem(self) -> str:
        """The file's name without folders and ending, the title of last resort."""
        return _ENDING.sub("", PurePosixPath(self.name).name) or self.name

    def document(self, title: str, items: Iterable[TextItem], **about: Any) -> Document:
        """Return the document of a text with its places; white space between paragraphs is reduced to a blank line."""
        texts: list[str] = []
        places: list[tuple[int, int | Mark]] = []
        seen = 0
        for item in items:
            if isinstance(item, str):
                texts.append(item)
                seen += count_visible(item)
            else:
                places.append((seen, item))
        text = "\n\n".join(block for each in _BLANK_LINES.split("".join(texts)) if (block := each.strip()))
        return Document(self.name, title or self.stem, text, self.source, places=places, **about)

    def read_part(self, name: str, load: Callable[[], bytes], inside: str) -> Iterator[Document]:
        """Read a file in this one; one that cannot be read is reported and left out."""
        try:
            if format_of(name) is None:
                raise Unreadable("has a format that is not read")
            if self.depth == _DEEPEST:
                raise Unreadable("is nested in too many archives")
            with _name_failures(name):
                content = BytesIO(load())
            path, depth = f"{self.name}/{name}", self.depth + 1
            part = CorpusFile(path, self.source, content, lambda what: self.complain(f"{name}: {what}"), depth)
            for document in read_file(part):
                yield document.put_inside(inside)
        except Unreadable as problem:
            self.complain(f"{name} {problem.message}")


@dataclass(frozen=True, slots=True)
class Document:
    """A text with a title: a whole file, a section of one, or a row of a table of texts."""

    id: str
    title: str
    text: str
    source: str
    own_id: bool = False
    """Whether the author of the corpus gave the id; passages then keep it."""
    place: str = ""
    """Its place in the file if it is one place, such as `row 12`."""
    inside: str = ""
    """The file in an archive, or the attachment of a mail, that it is from."""
    places: Sequence[tuple[int, int | Mark]] = ()
    """Numbers of lines or pages, anchors and links, each with the count of characters before it but white space."""
    unit: str = "line"
    metadata: tuple[tuple[str, str], ...] = ()
    """What the reader knows of it, such as `("date", "2024-05-31")`; its passages get it, with `type`."""

    def put_inside(self, name: str) -> Document:
        """Return the document as one from a file in another one."""
        return replace(self, inside=", ".join(filter(None, (name, self.inside))))


@dataclass(frozen=True, slots=True)
class ReadPassage(Passage):
    """A passage with its links, which only the graph of names needs."""

    links: str = ""
    """Its anchors and links as JSON, empty where it has none: `{"anchors": [...], "links": [[target, words], ...]}`."""


_ENDINGS = {
    "text_files.read_plain_text": ".txt .text .log .rst .adoc .tex .json .yaml .yml .toml .ini .cfg .conf .xml",
    "text_files.read_markdown": ".md .markdown",
    "text_files.read_code": ".py .js .mjs .jsx .ts .tsx .java .kt .scala .c .h .cc .cpp .hpp .cs .go .rs .rb .php "
    ".swift .pl .lua .r .jl .sh .ps1 .sql .css",
    "text_files.read_rtf": ".rtf",
    "web_page.read_web_page": ".html .htm .xhtml",
    "pdf.read_pdf": ".pdf",
    "ocr.read_picture": ".png .jpg .jpeg .tif .tiff .bmp .webp",
    "office.read_docx": ".docx .docm",
    "office.read_pptx": ".pptx .pptm",
    "office.read_odt": ".odt .odp",
    "office.read_epub": ".epub",
    "rows.read_table": ".csv .tsv",
    "rows.read_jsonl": ".jsonl .jsonl.gz",
    "rows.read_sheets": ".xlsx .xlsm .xlsb .xls .ods",
    "containers.read_mail": ".eml",
    "containers.read_mailbox": ".mbox",
    "containers.read_zip": ".zip",
}
FORMATS = {ending: reader for reader, endings in _ENDINGS.items() for ending in endings.split()}
"""The reader of each format, by the ending of the file's name: a module in `readers` and its function."""

_TYPES = {"markdown": "md", "htm": "html", "xhtml": "html", "text": "txt", "jsonl.gz": "jsonl"}


def format_of(name: str) -> str | None:
    """Return the entry of `FORMATS` for a file of this name, or None when its format is not read."""
    return FORMATS.get(_ending_of(name))


def _ending_of(name: str) -> str:
    lowered = name.lower()
    return next(filter(lowered.endswith, FORMATS), "")


def read_file(file: CorpusFile) -> Iterator[Document]:
    """Read a file whose format is one of `FORMATS`; raise `Unreadable` when nothing can be read from it."""
    # Imported when needed: the libraries for pdf and docx take a quarter of a second, which a search should not pay.
    module, _, function = (format_of(file.name) or "").partition(".")
    reader = getattr(import_module(f"beliefrag.retrieval.readers.{module}"), function)
    with _name_failures(file.name):
        if not file.content.read(_SAMPLE).strip():
            raise Unreadable("is empty")
        file.content.seek(0)
        yield from reader(file)


@contextmanager
def _name_failures(name: str) -> Iterator[None]:
    """Raise `Unreadable` for whatever a library says of a broken or encrypted file of this name."""
    try:
        yield
    except (Unreadable, MemoryError):
        raise
    except Exception as problem:
        words = clean_line(f"{type(problem).__name__}: {problem}")
        kind = f"is a broken {name.rpartition('.')[2].lower()} ({words})"
        is_locked = re.search("password|encrypt", words, re.IGNORECASE)
        raise Unreadable("is encrypted; remove its password first" if is_locked else kind) from problem


def links_of(passage: Passage) -> str:
    """Return the anchors and links of a passage as JSON, empty where it has none."""
    return passage.links if isinstance(passage, ReadPassage) else ""


def detect_encoding(start: bytes, *, whole: bool = True) -> str:
    """Return the encoding of a text, or raise `Unreadable`: by its byte-order mark, else UTF-8, else Windows-1252.

    With `whole=False` the bytes are only the beginning, and may end within a character.
    """
    for encoding, marks in _BYTE_ORDER_MARKS.items():
        if start.startswith(marks):
            return encoding
    if b"\0" in start:
        raise Unreadable("is binary, or text in an encoding without a byte-order mark")
    with suppress(UnicodeDecodeError):
        codecs.getincrementaldecoder("utf-8")().decode(start, whole)
        return "utf-8"
    sample = start[:_SAMPLE]
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
    if controls * 50 > len(sample):
        raise Unreadable("is binary, not text")
    text = sample.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    beyond_ascii = len(text) - len(text.encode("ascii", "ignore")) - broken
    # A few broken characters among many good ones are damage.
    return "utf-8" if broken * 4 < beyond_ascii else "cp1252"


def decode(data: bytes, declared: str = "") -> str:
    """Return bytes as clean text, or raise `Unreadable` if they are not text.

    A byte-order mark and valid UTF-8 come before the declared encoding.
    """
    encoding = detect_encoding(data)
    if encoding == "cp1252" and _TEXT_CODEC.fullmatch(declared.lower()):
        with suppress(LookupError):
            return clean_text(data.decode(declared, "replace"))
    return clean_text(data.decode(encoding, "replace"))


def make_storable(text: str) -> str:
    """Return text letter for letter, but without control characters and halves of surrogate pairs."""
    return _UNSTORABLE.sub(lambda found: "\ufffd" if "\ud800" <= found[0] <= "\udfff" else " ", text)


def clean_text(text: str) -> str:
    """Return storable text with plain line ends, and with accents composed (NFC)."""
    storable = make_storable(text.replace("\r\n", "\n").replace("\r", "\n"))
    return unicodedata.normalize("NFC", _MANY_MARKS.sub(r"\1", storable))


def clean_line(text: str) -> str:
    """Return text as one short clean line, for a title."""
    return " ".join(clean_text(text).split())[:_LONGEST_LINE].rstrip()


def printable_path(path: str | PurePath) -> str:
    r"""Return a path as printable text, other bytes as `\xNN` or `\uNNNN`; two paths never give the same text."""
    text = os.fspath(path)
    if os.sep == "\\":
        text = text.replace("\\", "/")
    return text if text.isprintable() and "\\" not in text else "".join(map(_escape_character, text))


def _escape_character(character: str) -> str:
    code = ord(character)
    if character.isprintable():
        return character.replace("\\", "\\\\")
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def count_visible(text: str) -> int:
    """Count the characters other than white space: cutting and joining texts does not change it."""
    return sum(map(len, text.split()))


def count_words(text: str) -> int:
    """Count the words of a text, by the measure that passages are cut with."""
    return len(_WORD.findall(text))


def find_words(text: str) -> list[tuple[int, int]]:
    """Return the start and the end of each word of a text, by the same measure."""
    return [found.span() for found in _WORD.finditer(text)]


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; nothing but spaces between them is lost.

    Initials and abbreviations do not end a sentence, nor does a stop before a small letter.
    """
    start = 0
    for end in _END.finditer(text):
        if end["stop"] and (end["next"].islower() or (end["stop"] == "." and _is_abbreviated(text, start, end))):
            continue
        yield text[start : end.end()].strip()
        start = end.end()
    if text[start:].strip():
        yield text[start:].strip()


def _is_abbreviated(text: str, start: int, stop: re.Match[str]) -> bool:
    found = _LAST_WORD.search(text, max(start, stop.start() - 40), stop.start())
    word = found[0].lower() if found else ""
    before_number = stop["next"].isdigit() and _BEFORE_NUMBER.fullmatch(word)
    return bool(before_number or _INITIALS.fullmatch(word) or _ABBREVIATION.fullmatch(word))


def split_text(text: str) -> list[str]:
    """Cut a text into pieces of about a hundred words, never more than `LONGEST`; only white space is lost.

    A piece ends with a paragraph if it is long enough by then, else with a sentence, else between words.
    """
    pieces: list[str] = []
    size = TARGET
    """The words of the last piece; a full one is followed by another."""
    for paragraph in _PARAGRAPHS.split(clean_text(text)):
        separator = "\n"
        for unit, words in _sentence_parts(paragraph):
            if size + words > TARGET:
                pieces.append(unit)
                size = words
            else:
                pieces[-1] += separator + unit
                size += words
            separator = " "
        size = TARGET if size >= _ENOUGH else size
    # A few words at the end say little alone; the passage before has room for them.
    if len(pieces) > 1 and size < _REMNANT and count_words(pieces[-2]) + size <= LONGEST:
        pieces[-2:] = ["\n".join(pieces[-2:])]
    return pieces


def _sentence_parts(paragraph: str) -> Iterator[tuple[str, int]]:
    """Yield sentences with their lengths, those beyond the target cut into parts."""
    for sentence in split_sentences(" ".join(paragraph.split())):
        words = find_words(sentence)
        for first in range(0, len(words), TARGET):
            part = words[first : first + TARGET]
            yield sentence[part[0][0] : part[-1][1]], len(part)


def cut_document(document: Document) -> Iterator[ReadPassage]:
    """Yield the passages of a document, each with the document's title, its place and its links.

    A passage's id is made from the document's name and the passage's own words. Rows that have an id keep it, with
    `#2`, `#3` ... for further parts of a long one. Cutting loses nothing but white space, so a passage begins after as
    many other characters as the passages before have: that is how its place is found.
    """
    ending = _ending_of(document.source)[1:]
    about = [("type", _TYPES.get(ending, ending)), *document.metadata]
    metadata = tuple(dict.fromkeys((name, value) for name, value in about if value))
    if not document.own_id and "language" not in dict(metadata) and (language := detect_language(document.text)):
        metadata = (*metadata, ("language", language))
    is_whole = document.own_id and _fits_row(document.text)
    texts = [make_storable(document.text)] if is_whole else split_text(document.text)
    seen = passed = last = 0
    for number, text in enumerate(texts, 1):
        before, seen, first = seen, seen + count_visible(text), last
        end = len(document.places) if number == len(texts) else bisect_left(document.places, seen, key=itemgetter(0))
        marks: list[Mark] = []
        for offset, item in document.places[passed:end]:
            if isinstance(item, Mark):
                marks.append(item)
            elif offset < seen:
                first, last = (item if offset <= before or not first else first), item
        passed = end
        place = f"{document.unit} {first}" if first == last else f"{document.unit}s {first}-{last}"
        if document.own_id:
            own = document.id if number == 1 else f"{document.id}#{number}"
        else:
            content = f"{len(document.id)},{len(document.title)},{document.id}{document.title}{text}"
            own = "p" + hashlib.sha256(content.encode()).hexdigest()[:16]
        where = ", ".join(filter(None, (document.inside, document.place or (place if last else ""))))
        yield ReadPassage(own, document.title, text, document.source, where, metadata, _write_links(marks))


def _write_links(marks: Sequence[Mark]) -> str:
    anchors = [mark.anchor for mark in marks if mark.anchor is not None]
    links = [(mark.target, mark.words) for mark in marks if mark.anchor is None]
    content = {"anchors": anchors[:_MOST_ANCHORS], "links": links[:_MOST_LINKS]}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")) if marks else ""


def _fits_row(text: str) -> bool:
    # Most rows are far below the limit, which a cheap upper bound shows.
    at_most = len(text.split()) + len(text) // 40 + len(text.encode("utf-8", "replace")) - len(text)
    return at_most <= LONGEST_ROW or count_words(text) <= LONGEST_ROW
