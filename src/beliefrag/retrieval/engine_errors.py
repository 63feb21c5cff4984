"""Turns failures of the embedded engine and of the disk into errors that say what was wrong and what to do."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from beliefrag.errors import BeliefRAGError, CorpusError, SettingsError
from beliefrag.paths import cache_dir
from beliefrag.retrieval.documents import printable_path

# What the operating system said, as tantivy quotes it, and what tantivy says when one of its threads could not write.
_SYSTEM_WORDS = re.compile(r"message: \"([^\"]+)\"|([A-Z][\w ,'/-]+?) \(os error \d+\)")
_SYSTEM_NUMBER = re.compile(r"\bcode: (\d+)\b|\(os error (\d+)\)")
_HIDDEN_CAUSE = re.compile(r"writer was killed|error occurred in a thread")
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_PERMISSION = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.EEXIST})
_LARGE_FILE = 128 * 1024 * 1024


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
    """Return whether the system did not let the engine write, so that the files of the index need not be damaged."""
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
        refused = _probe_folder(index)
        number = refused.errno if refused else errno.ENOSPC
        words = _one_line(refused) if refused else "the disk is full or failing"
    folder = "set BELIEFRAG_CACHE_DIR to a folder" if _is_in_cache(index) else "name a folder"
    if number in _NO_SPACE:
        limit = ", raise the limit on the size of a file (ulimit -f)" if number == errno.EFBIG else ""
        again = "then index the documents again: what was committed is kept"
        remedy = f"Free some space{limit} or {folder} on another disk, {again}."
    elif number in _NO_PERMISSION:
        remedy = f"Check its permissions, or {folder} that can be written to."
    elif number in _NO_FOLDER:
        remedy = f"A file is in the way: {folder}."
    else:
        remedy = "Check free space and permissions, then run again: what was committed is kept."
    return CorpusError(f"The index {printable_path(index)} cannot be written: {words}.", remedy=remedy)


def _probe_folder(folder: Path) -> OSError | None:
    """Write a small file that has no name; return the error with which the system refuses it, if it does."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(65536))
            file.flush()
            os.fsync(file.fileno())
            # It takes no space, and fails if files must not be that large.
            file.truncate(_LARGE_FILE)
    except OSError as refused:
        return refused
    return None


def _is_in_cache(index: Path) -> bool:
    try:
        return index.absolute().is_relative_to(cache_dir())
    except SettingsError:
        return False


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
