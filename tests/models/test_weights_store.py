import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag.errors import ModelError, SettingsError
from beliefrag.file_lock import hold_lock
from beliefrag.models.weights import (
    file_hash,
    find,
    is_present,
    partial_path,
    path_of,
    remove,
    resolve,
    store,
    weights_at,
)
from beliefrag.paths import cache_dir

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


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("BELIEFRAG_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(SettingsError) as caught:
        cache_dir()
    assert "BELIEFRAG_CACHE_DIR" in caught.value.remedy


@pytest.mark.parametrize("spec", ["local", "local:", "local:qwen2.5-coder-1.5b", "qwen2.5-coder-1.5b"])
def test_a_missing_model_is_answered_with_the_command_that_gets_it(spec: str) -> None:
    with pytest.raises(ModelError, match="not on this machine") as caught:
        resolve(spec)
    assert "beliefrag model pull qwen2.5-coder-1.5b" in caught.value.remedy
    assert "local:/path/to/file.gguf" in caught.value.remedy


def test_a_name_becomes_the_file_in_the_store(cache: Path) -> None:
    path = place()
    assert resolve(f"local:{NAME}") == path == cache / "models" / f"{NAME}.gguf"


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


def test_an_own_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.gguf"):
        resolve(f"local:{tmp_path}/nowhere.gguf")


def test_a_name_that_is_neither_known_nor_a_file_is_refused() -> None:
    with pytest.raises(ModelError, match="no weights named 'qwen'"):
        resolve("local:qwen")


def test_only_a_file_of_the_right_size_counts_as_present() -> None:
    weights = replace(find(NAME), size=7)
    assert not is_present(weights)
    place(content=b"weight")
    assert not is_present(weights)
    place(content=b"weights")
    assert is_present(weights)


def test_the_store_knows_its_own_files_from_a_users() -> None:
    assert weights_at(path_of(find(NAME))) is find(NAME)
    assert weights_at(Path(f"{NAME}.gguf")) is None


def test_remove_deletes_whole_and_half_pulled_weights_and_says_how_much() -> None:
    path = place(content=b"12345")
    partial_path(path).write_bytes(b"123")
    file_hash(path)
    assert remove(NAME) == 8
    left = [each.name for each in path.parent.rglob("*") if each.is_file()]
    assert left == [f"{NAME}.gguf.lock"]
    with pytest.raises(ModelError, match="not on this machine"):
        remove(NAME)


def test_weights_that_are_being_pulled_are_not_removed() -> None:
    path = place()
    with hold_lock(store.lock_path(path)), pytest.raises(ModelError, match="Another process"):
        remove(NAME)
    assert path.exists()


def test_a_hash_is_computed_once_until_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"first")
    first = file_hash(path)
    assert first == hashlib.sha256(b"first").hexdigest()
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    path.write_bytes(b"other")
    os.utime(path, ns=times)
    assert file_hash(path) == first, "same size and time: not read again"
    os.utime(path, ns=(times[0], times[1] + 1))
    assert file_hash(path) == hashlib.sha256(b"other").hexdigest()


def test_hashes_are_remembered_in_the_cache_and_not_beside_a_users_file(tmp_path: Path, cache: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "model.gguf").write_bytes(b"mine")
    file_hash(own / "model.gguf")
    assert [path.name for path in own.iterdir()] == ["model.gguf"]
    assert len(list((cache / "models" / "hashes").iterdir())) == 1


def test_a_damaged_note_or_an_unwritable_cache_only_costs_time(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"mine")
    expected = file_hash(path)
    (note,) = (cache / "models" / "hashes").iterdir()
    note.write_text("[]")
    assert file_hash(path) == expected
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert file_hash(path) == expected


def test_a_file_that_cannot_be_read_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.gguf"):
        file_hash(tmp_path / "nowhere.gguf")
