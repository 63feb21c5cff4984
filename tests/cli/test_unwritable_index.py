"""An index that cannot be written: one line says why and what to do, and the index that was there stays."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.retrieval import Bm25Index
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, command, write_docs, write_script
from tests.cli.test_ask_mistakes import expect_one_line

Command = Callable[..., Ran]
LARGEST_FILE = 64 * 1024


def write_big_docs(folder: Path) -> Path:
    big = folder / "big"
    big.mkdir()
    for number in range(20):
        rows = (" ".join(f"w{number * 997 + row * 89 + word}" for word in range(80)) for row in range(100))
        (big / f"{number}.md").write_text("\n\n".join(rows), encoding="utf-8")
    return big


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_is_told_in_one_line_without_the_words_of_the_engine(
    beliefrag: Command, home: Path, is_new: bool
) -> None:
    big, index = write_big_docs(home), home / "ships"
    if not is_new:
        beliefrag("index", write_docs(home), "--out", index)
    done = subprocess.run(
        command("index", big, "--out", index),
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=limit_file_size,
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    expect_one_line(ran, 1, "ships cannot be written: File too large. Free some space", "another disk", "again")
    assert not any(word in ran.err for word in ("thread", "writer", "panicked", "io::Error"))
    if not is_new:
        assert len(Bm25Index.open(index)) == 3
    assert beliefrag("index", big, "--out", index).code == 0
    assert len(Bm25Index.open(index)) > 100


def test_a_read_only_cache_folder_leads_to_the_variable_that_moves_it(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = home / "cache"
    make_folder = Path.mkdir

    def refuse(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        # Root may write everywhere, so the system's refusal is played.
        if path.is_relative_to(cache):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        make_folder(path, mode, parents, exist_ok)

    docs, model = write_docs(home), write_script(home, SURE, ANSWER)
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(cache))
    monkeypatch.setattr(Path, "mkdir", refuse)
    ran = beliefrag("ask", QUESTION, "--docs", docs, "--model", model, *BORROWED, "--set", "cache=false")
    expect_one_line(ran, 1, f"{cache}/indexes/", "Permission denied. Check its permissions, or set BELIEFRAG_CACHE_DIR")
    assert ran.err.endswith(".\n") and "space" not in ran.err


def test_an_index_below_a_file_needs_a_folder(beliefrag: Command, home: Path) -> None:
    (home / "taken").write_text("something else", encoding="utf-8")
    ran = beliefrag("index", write_docs(home), "--out", home / "taken" / "below")
    expect_one_line(ran, 1, "taken/below cannot be written: Not a directory. A file is in the way: name a folder.\n")
