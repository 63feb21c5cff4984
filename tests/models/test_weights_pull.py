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
from beliefrag.hub import DownloadError
from beliefrag.models.download import DownloadProgress, HubSource, PartialFile, SourceName, download, pull
from beliefrag.models.weights import Weights
from tests.support.messages import mentions
from tests.support.weights_hub import CONTENT, PATH, WEIGHTS, Behaviour, quick_hub, serve


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


class Recorder(DownloadProgress):
    def __init__(self) -> None:
        self.starts: list[tuple[str, int]] = []
        self.sizes: list[int] = []
        self.notes: list[str] = []

    def on_start(self, weights: Weights, source: str, done: int) -> None:
        self.starts.append((source, done))

    def on_bytes(self, done: int, total: int) -> None:
        assert total == WEIGHTS.size
        self.sizes.append(done)

    def on_message(self, text: str) -> None:
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

    def scratch_bytes(self, weights: Weights) -> int:
        return self.room

    def check(self, weights: Weights) -> None:
        if self.problem:
            raise self.problem

    def fetch(self, weights: Weights, partial: PartialFile) -> None:
        self.fetches += 1
        partial.append([self.content[partial.size :]])


def files(target: Path) -> Sequence[str]:
    return sorted(path.name for path in target.parent.iterdir() if path.is_file())


def test_a_pull_gives_the_exact_file_and_leaves_nothing_half_done(hub: Behaviour, target: Path) -> None:
    progress = Recorder()
    assert download(WEIGHTS, target, [quick_hub()], progress) == target
    assert target.read_bytes() == CONTENT
    assert files(target) == ["tiny.gguf", "tiny.gguf.lock"]
    assert progress.starts == [("127.0.0.1, owner/model", 0)]
    assert progress.sizes == sorted(progress.sizes)
    assert progress.sizes[-1] == WEIGHTS.size


def test_weights_that_are_here_are_not_fetched_again(hub: Behaviour, target: Path) -> None:
    download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    before = len(hub.requests)
    progress = Recorder()
    download(WEIGHTS, target, [quick_hub()], progress)
    assert len(hub.requests) == before
    assert progress.notes == ["tiny is already here."]


def test_damaged_weights_are_replaced(hub: Behaviour, target: Path) -> None:
    target.parent.mkdir(parents=True)
    target.write_bytes(b"x" * WEIGHTS.size)
    download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert target.read_bytes() == CONTENT


def test_a_broken_connection_is_continued_where_it_broke(hub: Behaviour, target: Path) -> None:
    hub.break_after = [1_000_000, 500_000]
    download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert target.read_bytes() == CONTENT
    assert [request.start for request in hub.downloads] == [0, 1_000_000, 1_500_000]


def test_a_server_without_ranges_is_read_from_the_beginning(hub: Behaviour, target: Path) -> None:
    hub.ranges = False
    hub.break_after = [1_000_000]
    download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert target.read_bytes() == CONTENT


def test_a_connection_that_keeps_breaking_says_so_and_keeps_what_came(hub: Behaviour, target: Path) -> None:
    hub.break_after = [300_000, 200_000, 0, 0, 0]
    with pytest.raises(DownloadError, match="broke the connection") as caught:
        download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert "continues where it stopped" in caught.value.remedy
    assert "--source registry" in caught.value.remedy
    download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert target.read_bytes() == CONTENT
    assert hub.downloads[-1].start == 500_000


def test_wrong_bytes_are_deleted_and_called_wrong(hub: Behaviour, target: Path) -> None:
    hub.content = CONTENT[:-1] + b"!"
    with pytest.raises(ModelError, match=r"tiny: .*deleted"):
        download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert files(target) == ["tiny.gguf.lock"]


def test_more_bytes_than_there_should_be_are_not_written(hub: Behaviour, target: Path) -> None:
    hub.content = CONTENT * 2
    with pytest.raises(ModelError, match="More data came"):
        download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert not target.exists()
    assert target.with_name("tiny.gguf.part").stat().st_size == 0


@pytest.mark.parametrize(("status", "words"), [(404, "HTTP 404"), (401, "HTTP 401"), (403, "HTTP 403")])
def test_a_hub_that_refuses_is_quoted_with_the_way_out(hub: Behaviour, target: Path, status: int, words: str) -> None:
    hub.status = status
    with pytest.raises(DownloadError, match=words) as caught:
        download(WEIGHTS, target, [quick_hub()], DownloadProgress())
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
    download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert {request.token for request in hub.requests} == {"Bearer hf_secret"}
    assert [request.token for request in storage.requests] == [None]
    assert "hf_secret" not in caplog.text


def test_the_signature_of_a_redirect_stays_out_of_errors(
    hub: Behaviour, servers: list[ThreadingHTTPServer], target: Path
) -> None:
    hub.redirect = serve(servers, Behaviour(status=403)) + PATH
    with pytest.raises(DownloadError) as caught:
        download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert "very-secret" not in "".join(traceback.format_exception(caught.value))


def test_an_endpoint_that_is_no_address_is_a_settings_error(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "ftp://mirror")
    with pytest.raises(SettingsError, match="HF_ENDPOINT"):
        download(WEIGHTS, target, [quick_hub()], DownloadProgress())


def test_an_unreachable_hub_gives_way_to_the_next_source(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    progress = Recorder()
    download(WEIGHTS, target, [quick_hub(), Memory()], progress)
    assert target.read_bytes() == CONTENT
    assert progress.starts == [("memory", 0)]
    assert "127.0.0.1 cannot be reached" in progress.notes[0]


def test_when_no_source_delivers_each_says_why(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 .*reached.* The cellar is closed\.") as caught:
        download(
            WEIGHTS, target, [quick_hub(), Memory(problem=DownloadError("The cellar is closed."))], DownloadProgress()
        )
    assert "--model local:/path/to/file.gguf" in caught.value.remedy and "--source" not in caught.value.remedy


def test_a_store_that_cannot_be_written_to_is_a_model_error(target: Path) -> None:
    target.with_name("tiny.gguf.lock").mkdir(parents=True)
    with pytest.raises(ModelError, match="cannot be written"):
        download(WEIGHTS, target, [Memory()], DownloadProgress())


def test_a_hub_that_does_not_answer_is_given_up_after_a_short_time(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        download(WEIGHTS, target, [HubSource(check_seconds=0.3), Memory()], DownloadProgress())
        assert time.monotonic() - started < 5


def test_what_one_source_began_another_finishes(hub: Behaviour, target: Path) -> None:
    hub.break_after = [500_000, 0, 0, 0]
    progress = Recorder()
    download(WEIGHTS, target, [quick_hub(), Memory()], progress)
    assert progress.starts == [("127.0.0.1, owner/model", 0), ("memory", 500_000)]
    assert target.read_bytes() == CONTENT


def test_a_full_disk_is_noticed_before_anything_is_fetched(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(target.anchor)._replace(free=WEIGHTS.size + 99)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    source = Memory(scratch=100)
    with pytest.raises(ModelError, match=r"needs 0\.00 GB more") as caught:
        download(WEIGHTS, target, [source], DownloadProgress())
    assert "BELIEFRAG_CACHE_DIR" in caught.value.remedy
    assert source.fetches == 0
    download(WEIGHTS, target, [Memory(scratch=99)], DownloadProgress())
    assert target.exists()


def test_weights_that_a_source_does_not_have_are_refused_at_once() -> None:
    with pytest.raises(SettingsError, match=r"smollm2-135m .* hub"):
        pull("smollm2-135m", source=SourceName.HUB)


def test_a_folder_that_cannot_be_made_is_a_model_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match="cannot be created"):
        download(WEIGHTS, tmp_path / "file" / "models" / "tiny.gguf", [Memory()], DownloadProgress())


PULLER = """
import pathlib, sys
sys.path.insert(0, sys.argv[2])
from beliefrag.models.download import DownloadProgress, download
from tests.support.weights_hub import WEIGHTS, quick_hub
class Loud(DownloadProgress):
    def on_bytes(self, done, total):
        print(done, flush=True)
download(WEIGHTS, pathlib.Path(sys.argv[1]), [quick_hub()], Loud())
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
    download(WEIGHTS, target, [quick_hub()], DownloadProgress())
    assert target.read_bytes() == CONTENT
    assert [request.start for request in hub.downloads] == [0, left]


def test_two_pulls_at_once_download_once(hub: Behaviour, target: Path) -> None:
    hub.pause = 0.01
    with start_pull(target) as first:
        assert first.stdout is not None
        first.stdout.readline()
        progress = Recorder()
        download(WEIGHTS, target, [quick_hub()], progress)
        first.stdout.read()
    assert first.returncode == 0
    assert len(hub.downloads) == 1
    waiting, here = progress.notes
    assert mentions(waiting, "Waiting") and mentions(here, "tiny")
    assert target.read_bytes() == CONTENT
