"""The files of an index: passages in the segments of tantivy, and a manifest that describes what they hold.

Before every commit the manifest is replaced: it has tantivy's number of the commit that it builds on (`base`), and what
the index holds before and after the next one. If tantivy's own number has passed `base`, the commit has happened: after
any kill the two agree. Readers need the first line only, take no lock and write nothing.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tantivy

from beliefrag.errors import BeliefRAGError, CorpusError
from beliefrag.retrieval.documents import ReadPassage, links_of, printable_path
from beliefrag.retrieval.languages import ENGLISH, analyse, language_of
from beliefrag.types import Passage

MANIFEST = "beliefrag-index.jsonl"
"""Name of the manifest inside an index folder; its presence makes a folder an index of ours."""
STORE = "bm25"
"""Name of the folder with the segments inside an index folder."""
REBUILD = "Remove the directory and build the index again with `beliefrag index`."
"""What to do with an index that cannot be used."""

ID = "id"
SOURCE = "source"
ORDER = "order"
CONTENT = "content"
KEY = "key"
LINKS = "links"
METADATA = "metadata"
"""Each value as `NAME=VALUE`."""
LANGUAGE = "language"
"""The language of a passage, unless it is English."""
WORDS = "words"
"""The terms of passages in other languages than English, beside their content."""
_PLACE = "place"

ANALYSER = "en_stem"
"""Tantivy's own English analyser: words of letters and digits up to 40 bytes, lower case, stemmed."""

_FORMAT = 3
_ALWAYS = -1  # A `base` that every store has passed.
_LONGEST_ID = 512

# What the operating system said, as tantivy quotes it, and what tantivy says when one of its threads could not write.
_SYSTEM_WORDS = re.compile(r"message: \"([^\"]+)\"|([A-Z][\w ,'/-]+?) \(os error \d+\)")
_SYSTEM_NUMBER = re.compile(r"\bcode: (\d+)\b|\(os error (\d+)\)")
_HIDDEN_CAUSE = re.compile(r"writer was killed|error occurred in a thread")
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.EEXIST})


class IndexUnusable(CorpusError):
    """An index is damaged or of another version; building it again helps."""


class IndexIncomplete(CorpusError):
    """The graph of names of an index is missing, or another process is still making it."""


class PassageRow(NamedTuple):
    """A passage as the graph of names reads it."""

    key: int
    id: str
    title: str
    text: str
    source: str = ""
    links: str = ""
    """Anchors and links as JSON, as `ReadPassage` has them."""


@dataclass(frozen=True, slots=True)
class CorpusState:
    """The number of passages, and the sum (modulo 2^256) of one SHA-256 per passage, in whatever order."""

    passages: int
    total: int

    @classmethod
    def from_sum(cls, passages: int, total: int) -> CorpusState:
        """Return the state with this sum of digests, which may have any size and sign."""
        return cls(passages, total % (1 << 256))

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, equal for two corpora exactly when their (id, title, text) sets are."""
        return hashlib.sha256(f"{self.passages}:{self.total:064x}".encode()).hexdigest()[:32]


EMPTY = CorpusState(0, 0)
"""The corpus without passages."""


class IndexedFile(NamedTuple):
    """What is known of a file. An empty hash means that its passages were still being written."""

    sha256: str = ""
    size: int = -1
    mtime_ns: int = -1
    ctime_ns: int = -1
    complaints: Sequence[str] = ()
    """What was left out of it, or is suspicious, or why it gave nothing; reported by later runs too."""
    refused_by: str = ""
    """With which limits and readers it gave nothing: by others it may be read."""


class Snapshot(NamedTuple):
    """What an index holds at a moment, with tantivy's number of the last commit."""

    opstamp: int
    state: CorpusState


def passage_digest(passage: Passage) -> int:
    """Return the digest of a passage's id, title and text, as a number."""
    # The two lengths make it unambiguous where the id ends and the text begins.
    content = f"{len(passage.id)},{len(passage.title)},{passage.id}{passage.title}{passage.text}"
    return int.from_bytes(hashlib.sha256(content.encode()).digest())


def passage_key(digest: int) -> int:
    """Return the number by which the graph of names knows a passage, from the passage's digest."""
    return digest >> 193


def check_passage(passage: Passage) -> Passage:
    """Return the passage, or raise `CorpusError` if its id is empty, too long or not printable."""
    name = passage.id
    # A character has four bytes at most, so the bytes of short ids need not be counted.
    if not name or not name.isprintable() or (4 * len(name) > _LONGEST_ID and len(name.encode()) > _LONGEST_ID):
        raise CorpusError(
            f"{passage.id[:80]!r} cannot be a passage id.",
            remedy=f"Give every passage an id of 1 to {_LONGEST_ID} bytes of printable characters.",
        )
    return passage


def index_schema() -> tantivy.Schema:
    """Return the fields of an index; title and text are two values of one field, which BM25 sees as a single text."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(ID, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(SOURCE, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field(ORDER, fast=True)
    builder.add_integer_field(KEY, fast=True)
    builder.add_text_field(_PLACE, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field(LINKS, stored=True)
    builder.add_text_field(METADATA, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(LANGUAGE, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(WORDS, tokenizer_name="raw", index_option="freq")
    builder.add_text_field(CONTENT, stored=True, tokenizer_name=ANALYSER, index_option="freq")
    return builder.build()


def to_document(passage: Passage, sources: Sequence[str], digest: int) -> tantivy.Document:
    """Return what tantivy stores and indexes for a passage."""
    # The first eight bytes of the id as a number that sorts like the id: hits of equal score can then be ordered by id
    # without fetching all of them.
    identifier = passage.id
    order = int.from_bytes(identifier[:8].encode()[:8].ljust(8, b"\0")) - (1 << 63)
    document = tantivy.Document()
    document.add_text(ID, identifier)
    for source in sources:
        document.add_text(SOURCE, source)
    document.add_integer(ORDER, order)
    document.add_integer(KEY, passage_key(digest))
    if passage.place:
        document.add_text(_PLACE, passage.place)
    if links := links_of(passage):
        document.add_bytes(LINKS, links.encode())
    for name, value in passage.metadata:
        document.add_text(METADATA, f"{name}={value}")
    language = language_of(passage)
    if language != ENGLISH:
        document.add_text(LANGUAGE, language)
        terms = analyse(f"{passage.title}\n{passage.text}", language)
        tokens = [tantivy.Token(term, place, 0, 0) for place, term in enumerate(terms)]
        document.add_pre_tokenized_text(WORDS, tantivy.PreTokenizedString("", tokens))
    document.add_text(CONTENT, passage.title)
    document.add_text(CONTENT, passage.text)
    return document


def to_passage(document: tantivy.Document) -> tuple[Passage, tuple[str, ...]]:
    """Return the passage that a stored document holds, and all its sources."""
    title, text = document[CONTENT]
    sources = tuple(document[SOURCE])
    place = next(iter(document[_PLACE]), "")
    held = document[METADATA]
    metadata = tuple(each.partition("=")[::2] for each in held) if held else ()
    return Passage(document[ID][0], title, text, sources[0] if sources else "", place, metadata), sources


def to_read_passage(document: tantivy.Document) -> tuple[Passage, tuple[str, ...]]:
    """Return the same with the links of the passage: all that is needed to store it again."""
    passage, sources = to_passage(document)
    links = document.get_first(LINKS)
    if not links:
        return passage, sources
    known: dict[str, Any] = {name: getattr(passage, name) for name in Passage.__slots__}
    return ReadPassage(**known, links=bytes(links).decode()), sources


def create_store(index: Path) -> None:
    """Make an empty store unless there is one; made aside and renamed, it never empties another process's store."""
    if (index / STORE).exists():
        return
    with tempfile.TemporaryDirectory(prefix="new-", dir=index, ignore_cleanup_errors=True) as aside:
        fresh = Path(aside) / STORE
        fresh.mkdir()
        tantivy.Index(index_schema(), path=str(fresh))
        try:
            fresh.rename(index / STORE)
        except OSError:
            if not (index / STORE).exists():
                raise


def open_searcher(index: Path) -> tuple[tantivy.Searcher, tantivy.Schema]:
    """Return a view of the store as it is now, which later commits do not change.

    Tantivy takes a lock file even to read, so a read-only folder is opened through a temporary folder of links.
    """
    store = index / STORE
    try:
        opened = tantivy.Index.open(str(store))
    except ValueError as problem:
        if not is_permission_denied(problem):
            raise
        with tempfile.TemporaryDirectory(prefix="beliefrag-", ignore_cleanup_errors=True) as links:
            for file in store.iterdir():
                if not file.name.endswith(".lock"):
                    (Path(links) / file.name).symlink_to(file.resolve())
            opened = tantivy.Index.open(links)
            return opened.searcher(), opened.schema
    return opened.searcher(), opened.schema


def check_count(index: Path, searcher: tantivy.Searcher, state: CorpusState) -> None:
    """Raise `IndexUnusable` unless the segments hold as many passages as the manifest says."""
    if searcher.num_docs != state.passages:
        raise IndexUnusable(
            f"The index {printable_path(index)} is damaged: {searcher.num_docs} passages, but its manifest says "
            f"{state.passages}.",
            remedy=REBUILD,
        )


def dead_passages(index: Path) -> int:
    """Count the deleted passages that the segments still carry, and count in their statistics."""
    return sum(int((segment["deletes"] or {}).get("num_deleted_docs", 0)) for segment in _read_meta(index)["segments"])


def read_snapshot(index: Path) -> Snapshot:
    """Return what an index holds at this moment."""
    with _explain_read_errors(index), (index / MANIFEST).open("rb") as manifest:
        snapshot, _ = _read_head(index, manifest.readline())
    return snapshot


def read_files(index: Path) -> dict[str, IndexedFile]:
    """Return the indexed files by path."""
    with _explain_read_errors(index), (index / MANIFEST).open("rb") as manifest:
        _, has_happened = _read_head(index, manifest.readline())
        body = json.loads(manifest.readline())
        files = {path: IndexedFile(*record) for path, record in body["files"].items()}
        changes = {path: record and IndexedFile(*record) for path, record in body["changes"].items()}
    return change_files(files, changes if has_happened else {})


def change_files(files: Mapping[str, IndexedFile], changes: Mapping[str, IndexedFile | None]) -> dict[str, IndexedFile]:
    """Return the files with some of them recorded as indexed, or (None) as no longer indexed."""
    return {path: record for path, record in {**files, **changes}.items() if record}


def write_manifest(
    index: Path,
    before: CorpusState,
    after: CorpusState,
    files: Mapping[str, IndexedFile],
    changes: Mapping[str, IndexedFile | None],
    *,
    expects_commit: bool,
) -> None:
    """Replace the manifest, whole or not at all: the next commit, or this, makes `before` `after` and changes files."""
    head: dict[str, Any] = {
        "beliefrag_index": _FORMAT,
        "base": _read_meta(index)["opstamp"] if expects_commit else _ALWAYS,
    }
    for name, state in (("before", before), ("after", after)):
        head[name] = {"passages": state.passages, "total": f"{state.total:x}", "fingerprint": state.fingerprint}
    body = {"files": dict(files), "changes": dict(changes)}
    aside = index / f"new-{MANIFEST}"
    with aside.open("wb") as file:
        # Paths may hold any bytes, so everything is escaped to ASCII.
        file.write(b"".join(json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n" for line in (head, body)))
        file.flush()
        os.fsync(file.fileno())
    aside.replace(index / MANIFEST)
    sync_folder(index)


def sync_folder(folder: Path) -> None:
    """Make a rename within a folder survive a loss of power, where the system can promise that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _read_head(index: Path, line: bytes) -> tuple[Snapshot, bool]:
    """Return what the first line of the manifest says, and whether the commit that it expects has happened."""
    head = json.loads(line)
    version = head["beliefrag_index"]
    if version != _FORMAT:
        raise IndexUnusable(
            f"The index {printable_path(index)} has format {version!r}; this BeliefRAG reads format {_FORMAT}.",
            remedy=REBUILD,
        )
    opstamp = int(_read_meta(index)["opstamp"])
    has_happened = opstamp > int(head["base"])
    state = head["after" if has_happened else "before"]
    return Snapshot(opstamp, CorpusState(int(state["passages"]), int(state["total"], 16))), has_happened


def _read_meta(index: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((index / STORE / "meta.json").read_text("utf-8"))
    return meta


@contextmanager
def _explain_read_errors(index: Path) -> Iterator[None]:
    name = printable_path(index)
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as problem:
        if (index / MANIFEST).exists():
            raise IndexUnusable(f"The index {name} is damaged: files are missing.", remedy=REBUILD) from problem
        remedy = "Build it with `beliefrag index`, or check the path."
        raise CorpusError(f"{name} does not exist or is not a BeliefRAG index.", remedy=remedy) from problem
    except OSError as problem:
        reason = problem.strerror or problem
        raise CorpusError(f"The index {name} cannot be read: {reason}.", remedy="Check its permissions.") from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise IndexUnusable(f"The index {name} is damaged: its manifest cannot be read.", remedy=REBUILD) from problem


def explain_engine_errors(kind: type[BeliefRAGError], message: str, *, remedy: str) -> AbstractContextManager[None]:
    """Turn every error of the engine into one of ours: the message, and the engine's own words."""
    return _replace_errors(lambda problem: kind(f"{message}: {_one_line(problem)}.", remedy=remedy))


def explain_write_errors(index: Path) -> AbstractContextManager[None]:
    """Turn every failure to write an index into one error, with the remedy for what the system said."""
    return _replace_errors(lambda problem: _make_write_error(index, problem))


def is_permission_denied(problem: BaseException) -> bool:
    """Return whether tantivy failed because it may not write where the store lies."""
    return "PermissionDenied" in str(problem) or "ReadOnlyFilesystem" in str(problem)


def is_disk_refusal(problem: BaseException) -> bool:
    """Return whether the system did not let the engine write so that the files of the index need not be damaged."""
    return is_permission_denied(problem) or _system_number(problem) in _NO_SPACE | _NO_PERMISSION


@contextmanager
def _replace_errors(make_error: Callable[[BaseException], BeliefRAGError]) -> Iterator[None]:
    try:
        yield
    except BeliefRAGError:
        raise
    except BaseException as problem:
        # On a damaged file tantivy may panic; that arrives as a BaseException whose class cannot be imported.
        expected = isinstance(problem, OSError | RuntimeError | ValueError | KeyError)
        if not expected and type(problem).__name__ != "PanicException":
            raise
        raise make_error(problem) from problem


def _make_write_error(index: Path, problem: BaseException) -> CorpusError:
    number, words = _system_number(problem), _one_line(problem)
    # numpy counts what it could not write, and does not say why.
    if number is None and (isinstance(problem, OSError) or _HIDDEN_CAUSE.search(str(problem))):
        number, words = errno.ENOSPC, "the disk is full or failing"
    folder = "name a folder (BELIEFRAG_CACHE_DIR for that of the cache)"
    if number in _NO_SPACE:
        again = "then index the documents again: what was committed is kept"
        remedy = f"Free some space or {folder} on another disk, {again}."
    elif number in _NO_PERMISSION:
        remedy = f"Check its permissions, or {folder} that can be written to."
    elif number in _NO_FOLDER:
        remedy = f"A file is in the way: {folder}."
    else:
        remedy = "Check free space and permissions, then run again: what was committed is kept."
    return CorpusError(f"The index {printable_path(index)} cannot be written: {words}.", remedy=remedy)


def _system_number(problem: BaseException) -> int | None:
    """Return the number of the system's error, even if the engine only quotes it."""
    if isinstance(problem, OSError):
        return problem.errno
    quoted = _SYSTEM_NUMBER.search(str(problem))
    return int(quoted[1] or quoted[2]) if quoted else None


def _one_line(problem: BaseException) -> str:
    """Return what went wrong without a full stop, in the words of the system if the engine quotes them."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    text = " ".join(str(problem).split())
    if quoted := _SYSTEM_WORDS.search(text):
        return quoted[1] or quoted[2]
    return text[:300].rstrip(".") or type(problem).__name__
