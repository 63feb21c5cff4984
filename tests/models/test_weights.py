import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from beliefrag.errors import ModelError
from beliefrag.models.weights import (
    CATALOGUE,
    Weights,
    file_hash,
    find,
    is_present,
    path_of,
    resolve,
    weights_at,
    weights_with_hash,
)
from beliefrag.settings import cache_dir
from tests.support.messages import mentions

NAME = "smollm2-135m"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(folder))
    return folder


def place(name: str = NAME, content: bytes = b"weights") -> Path:
    path = path_of(find(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("weights", CATALOGUE, ids=lambda weights: weights.name)
def test_every_entry_is_pinned_and_adds_up(weights: Weights) -> None:
    assert find(weights.name) is weights
    assert weights_with_hash(weights.sha256) is weights
    for one in (weights, weights.tokenizer):
        if one is not None:
            assert re.fullmatch("[0-9a-f]{64}", one.sha256)
            assert sum(part.size for part in one.parts) == one.size, "every entry has a source that is no hub"
            assert len({part.package for part in one.parts}) == len(one.parts)
            for part in one.parts:
                assert re.fullmatch(r"\d+(\.\d+)+", part.version)
                assert not PurePosixPath(part.member).is_absolute() and ".." not in part.member


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ModelError, match="Unknown weights: 'qwen'") as caught:
        resolve("local:qwen")
    assert all(weights.name in caught.value.remedy for weights in CATALOGUE)
    assert weights_with_hash("0" * 64) is None


def test_the_cache_folder_follows_the_settings_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", "~/own")
    assert cache_dir() == tmp_path / "own"
    monkeypatch.delenv("BELIEFRAG_CACHE_DIR")
    assert cache_dir() == tmp_path / "xdg" / "beliefrag"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_dir() == tmp_path / ".cache" / "beliefrag"
    assert not (tmp_path / ".cache").exists()


@pytest.mark.parametrize("spec", ["local", "local:", "local:qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b"])
def test_a_missing_model_is_answered_with_the_command_that_gets_it(spec: str) -> None:
    with pytest.raises(ModelError, match="not on this machine") as caught:
        resolve(spec)
    assert "beliefrag model pull qwen2.5-coder-1.5b" in caught.value.remedy
    assert "local:/path/to/file.gguf" in caught.value.remedy


def test_weights_that_only_embed_are_no_model_that_answers() -> None:
    with pytest.raises(ModelError) as caught:
        resolve("local:gte-small")
    assert mentions(caught.value.remedy, "dense:weights=gte-small", "--model")


def test_own_files_are_found_by_absolute_relative_and_home_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "mine" / "model.gguf"
    own.parent.mkdir()
    own.write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "mine")
    assert resolve(f"local:{own}") == own
    assert resolve("local:model.gguf") == own
    assert resolve("local:../mine/model.gguf").samefile(own)
    assert resolve("local:~/mine/model.gguf") == own
    for missing in (f"{tmp_path}/nowhere.gguf", "~nobody/nowhere.gguf"):
        with pytest.raises(ModelError, match=r"nowhere\.gguf"):
            resolve(f"local:{missing}")


def test_only_a_file_of_the_right_size_counts_as_present(cache: Path) -> None:
    weights = replace(find(NAME), size=7)
    assert not is_present(weights)
    path = place(content=b"weight")
    assert not is_present(weights)
    place(content=b"weights")
    assert is_present(weights)
    assert resolve(f"local:{NAME}") == path == cache / "models" / f"{NAME}.gguf"
    assert weights_at(path) is find(NAME)
    assert weights_at(Path(f"{NAME}.gguf")) is None


def test_a_hash_is_computed_once_until_the_file_changes(tmp_path: Path, cache: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    path = own / "model.gguf"
    path.write_bytes(b"first")
    first = file_hash(path)
    assert first == hashlib.sha256(b"first").hexdigest()
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(b"other")
    os.utime(path, ns=times)
    assert file_hash(path) == first, "same size and time: not read again"
    os.utime(path, ns=(times[0], times[1] + 1))
    assert file_hash(path) == hashlib.sha256(b"other").hexdigest()
    assert [path.name for path in own.iterdir()] == ["model.gguf"]
