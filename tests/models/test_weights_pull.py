"""Pulling from the hub and in general, over real HTTP on the loopback interface."""

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from beliefrag.errors import ModelError, SettingsError
from beliefrag.models.weights.sources import Aside
from beliefrag.models.weights.catalogue import Weights
from beliefrag.models.weights.sources import Hub
from beliefrag.models.weights.download import Watcher, obtain, pull
from beliefrag.models.weights.sources import SourceError, SourceName
from tests.support.weights_hub import CONTENT, PATH, WEIGHTS, Behaviour, hasty, serve


@pytest.fixture
def servers() -> Iterator[list[ThreadingHTTPServer]]:
    running: list[ThreadingHTTPServer] = []
    yield running
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hub(servers: list[ThreadingHTTPServer], monkeypatch: pytest.MonkeyPatch) -> Behaviour:
    behaviour = Behaviour()
    monkeypatch.setenv("HF_ENDPOINT", serve(servers, behaviour))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return behaviour


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "tiny.gguf"


class Recorder(Watcher):
    def __init__(self) -> None:
        self.starts: list[tuple[str, int]] = []
        self.sizes: list[int] = []
        self.notes: list[str] = []

    def starting(self, weights: Weights, source: str, done: int) -> None:
        self.starts.append((source, done))

    def progress(self, done: int, total: int) -> None:
        assert total == WEIGHTS.size
        self.sizes.append(done)

    def note(self, text: str) -> None:
        self.notes.append(text)


class Memory:
    """A source that needs no network."""

    name = SourceName.REGISTRY

    def __init__(self, content: bytes = CONTENT, *, scratch: int = 0, problem: Exception | None = None) -> None:
        self.content = content
        self.room = scratch
        self.problem = problem
        self.fetches = 0

    def has(self, weights: Weights) -> bool:
        return True

    def describe(self, weights: Weights) -> str:
        return "memory"

    def scratch(self, weights: Weights) -> int:
        return self.room

    def check(self, weights: Weights) -> None:
        if self.problem:
            raise self.problem

    def fetch(self, weights: Weights, aside: Aside) -> None:
        self.fetches += 1
        aside.append([self.content[aside.size :]])


def files(target: Path) -> Sequence[str]:
    return sorted(path.name for path in target.parent.iterdir() if path.is_file())


def test_a_pull_gives_the_exact_file_and_leaves_nothing_half_done(hub: Behaviour, target: Path) -> None:
    watcher = Recorder()
    assert obtain(WEIGHTS, target, [hasty()], watcher) == target
    assert target.read_bytes() == CONTENT
    assert files(target) == ["tiny.gguf", "tiny.gguf.lock"]
    assert watcher.starts == [("127.0.0.1, owner/model", 0)]
    assert watcher.sizes == sorted(watcher.sizes)
    assert watcher.sizes[-1] == WEIGHTS.size


def test_weights_that_are_here_are_not_fetched_again(hub: Behaviour, target: Path) -> None:
    obtain(WEIGHTS, target, [hasty()], Watcher())
    before = len(hub.requests)
    watcher = Recorder()
    obtain(WEIGHTS, target, [hasty()], watcher)
    assert len(hub.requests) == before
    assert watcher.notes == ["tiny is already here."]


def test_damaged_weights_are_replaced(hub: Behaviour, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(b"x" * WEIGHTS.size)
    obtain(WEIGHTS, target, [hasty()], Watcher())
    assert target.read_bytes() == CONTENT


def test_a_broken_connection_is_continued_where_it_broke(hub: Behaviour, target: Path) -> None:
    hub.break_after = [1_000_000, 500_000]
    obtain(WEIGHTS, target, [hasty()], Watcher())
    assert target.read_bytes() == CONTENT
    assert [request.start for request in hub.downloads] == [0, 1_000_000, 1_500_000]


def test_a_server_without_ranges_is_read_from_the_beginning(hub: Behaviour, target: Path) -> None:
    hub.ranges = False
    hub.break_after = [1_000_000]
    obtain(WEIGHTS, target, [hasty()], Watcher())
    assert target.read_bytes() == CONTENT


def test_a_connection_that_keeps_breaking_says_so_and_keeps_what_came(hub: Behaviour, target: Path) -> None:
    hub.break_after = [300_000, 200_000, 0, 0, 0]
    with pytest.raises(SourceError, match="broke the connection") as caught:
        obtain(WEIGHTS, target, [hasty()], Watcher())
    assert "Pull again to go on" in caught.value.remedy
    assert "--source registry" in caught.value.remedy
    obtain(WEIGHTS, target, [hasty()], Watcher())
    assert target.read_bytes() == CONTENT
    assert hub.downloads[-1].start == 500_000


def test_wrong_bytes_are_deleted_and_called_wrong(hub: Behaviour, target: Path) -> None:
    hub.content = CONTENT[:-1] + b"!"
    with pytest.raises(ModelError, match=r"What came is not tiny: .* It was deleted"):
        obtain(WEIGHTS, target, [hasty()], Watcher())
    assert files(target) == ["tiny.gguf.lock"]


def test_more_bytes_than_there_should_be_are_not_written(hub: Behaviour, target: Path) -> None:
    hub.content = CONTENT * 2
    with pytest.raises(ModelError, match="More data came"):
        obtain(WEIGHTS, target, [hasty()], Watcher())
    assert not target.exists()
    assert target.with_name("tiny.gguf.part").stat().st_size == 0


@pytest.mark.parametrize(
    ("status", "words"), [(404, "does not have this file"), (401, "asks for a token"), (403, "does not allow")]
)
def test_a_hub_that_refuses_is_quoted_with_the_way_out(hub: Behaviour, target: Path, status: int, words: str) -> None:
    hub.status = status
    with pytest.raises(SourceError, match=words) as caught:
        obtain(WEIGHTS, target, [hasty()], Watcher())
    assert caught.value.status == status
    assert "local:/path/to/file.gguf" in caught.value.remedy
    assert hub.downloads == []


def test_the_token_reaches_the_hub_and_nobody_else(
    hub: Behaviour,
    servers: list[ThreadingHTTPServer],
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    storage = Behaviour()
    hub.redirect = serve(servers, storage) + PATH
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    obtain(WEIGHTS, target, [hasty()], Watcher())
    assert {request.token for request in hub.requests} == {"Bearer hf_secret"}
    assert [request.token for request in storage.requests] == [None]
    assert "hf_secret" not in caplog.text


def test_the_signature_of_a_redirect_stays_out_of_errors(
    hub: Behaviour, servers: list[ThreadingHTTPServer], target: Path
) -> None:
    hub.redirect = serve(servers, Behaviour(status=403)) + PATH
    with pytest.raises(SourceError) as caught:
        obtain(WEIGHTS, target, [hasty()], Watcher())
    assert "very-secret" not in "".join(traceback.format_exception(caught.value))


def test_an_endpoint_that_is_no_address_is_a_settings_error(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "ftp://mirror")
    with pytest.raises(SettingsError, match="HF_ENDPOINT"):
        obtain(WEIGHTS, target, [hasty()], Watcher())


def test_an_unreachable_hub_gives_way_to_the_next_source(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    watcher = Recorder()
    obtain(WEIGHTS, target, [hasty(), Memory()], watcher)
    assert target.read_bytes() == CONTENT
    assert watcher.starts == [("memory", 0)]
    assert "127.0.0.1 cannot be reached" in watcher.notes[0]


def test_when_no_source_delivers_each_says_why(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"127\.0\.0\.1 cannot be reached.* The attic is locked\.") as caught:
        obtain(WEIGHTS, target, [hasty(), Memory(problem=SourceError("The attic is locked."))], Watcher())
    assert caught.value.remedy == "Or name a file of your own: --model local:/path/to/file.gguf"


def test_a_store_that_cannot_be_written_to_is_a_model_error(target: Path) -> None:
    target.with_name("tiny.gguf.lock").mkdir(parents=True)
    with pytest.raises(ModelError, match="cannot be written"):
        obtain(WEIGHTS, target, [Memory()], Watcher())


def test_a_hub_that_does_not_answer_is_given_up_after_a_short_time(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        obtain(WEIGHTS, target, [Hub(patience=0.3), Memory()], Watcher())
        assert time.monotonic() - started < 5


def test_what_one_source_began_another_finishes(hub: Behaviour, target: Path) -> None:
    hub.break_after = [500_000, 0, 0, 0]
    watcher = Recorder()
    obtain(WEIGHTS, target, [hasty(), Memory()], watcher)
    assert watcher.starts == [("127.0.0.1, owner/model", 0), ("memory", 500_000)]
    assert target.read_bytes() == CONTENT


def test_a_full_disk_is_noticed_before_anything_is_fetched(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(target.anchor)._replace(free=WEIGHTS.size + 99)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    source = Memory(scratch=100)
    with pytest.raises(ModelError, match=r"needs 0\.00 GB more") as caught:
        obtain(WEIGHTS, target, [source], Watcher())
    assert "BELIEFRAG_CACHE_DIR" in caught.value.remedy
    assert source.fetches == 0
    obtain(WEIGHTS, target, [Memory(scratch=99)], Watcher())
    assert target.exists()


def test_weights_that_a_source_does_not_have_are_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="smollm2-135m cannot be had from hub"):
        pull("smollm2-135m", source=SourceName.HUB)


def test_a_folder_that_cannot_be_made_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="cannot be made"):
        obtain(WEIGHTS, tmp_path / "file" / "models" / "tiny.gguf", [Memory()], Watcher())


PULLER = """
import pathlib, sys
sys.path.insert(0, sys.argv[2])
from beliefrag.models.weights.download import Watcher, obtain
from tests.support.weights_hub import WEIGHTS, hasty
class Loud(Watcher):
    def progress(self, done, total):
        print(done, flush=True)
obtain(WEIGHTS, pathlib.Path(sys.argv[1]), [hasty()], Loud())
"""


def start_pull(target: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PULLER, str(target), str(Path(__file__).parents[2])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="kills with SIGKILL")
def test_a_pull_killed_in_the_middle_is_continued_by_the_next(hub: Behaviour, target: Path) -> None:
    hub.pause = 0.02
    with start_pull(target) as first:
        assert first.stdout is not None
        while int(first.stdout.readline()) < 1_000_000:
            pass
        os.kill(first.pid, signal.SIGKILL)
    left = target.with_name("tiny.gguf.part").stat().st_size
    assert 1_000_000 <= left < WEIGHTS.size
    assert not target.exists()
    hub.pause = 0.0
    obtain(WEIGHTS, target, [hasty()], Watcher())
    assert target.read_bytes() == CONTENT
    assert [request.start for request in hub.downloads] == [0, left]


def test_two_pulls_at_once_download_once(hub: Behaviour, target: Path) -> None:
    hub.pause = 0.01
    with start_pull(target) as first:
        assert first.stdout is not None
        first.stdout.readline()
        watcher = Recorder()
        obtain(WEIGHTS, target, [hasty()], watcher)
        first.stdout.read()
    assert first.returncode == 0
    assert len(hub.downloads) == 1
    assert watcher.notes == ["Another pull of these weights is under way.", "tiny is already here."]
    assert target.read_bytes() == CONTENT
