import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beliefrag.errors import ModelError
from beliefrag.models.embedded import read_head

STRING, ARRAY, INT32, UINT32 = 8, 9, 5, 4


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def gguf(version: int = 3) -> bytes:
    tokens = ["<|im_start|>", "the", "<tool_call>", "  ", "[INST]", "[PAD7]"]
    types = [3, 1, 4, 4, 3, 5]
    pairs = [
        text("general.architecture") + struct.pack("<I", STRING) + text("llama"),
        text("llama.context_length") + struct.pack("<II", UINT32, 2048),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", ARRAY, STRING, 6) + b"".join(map(text, tokens)),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ6i", ARRAY, INT32, 6, *types),
        text("tokenizer.ggml.merges") + struct.pack("<IIQ", ARRAY, STRING, 10**15),
    ]
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs)) + b"".join(pairs)


def test_the_head_tells_the_trained_context_and_the_marks_of_the_template(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf())
    head = read_head(path)
    assert head.architecture == "llama"
    assert head.context == 2048
    assert head.control_tokens == ("<|im_start|>", "<tool_call>", "[INST]")


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 a wheel", b"<html>not found</html>"])
def test_a_file_that_is_not_gguf_is_called_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="not a GGUF"):
        read_head(path)


def test_an_unknown_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(version=1))
    with pytest.raises(ModelError, match="version 1"):
        read_head(path)


def test_a_missing_file_and_a_folder_are_model_errors(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no file"):
        read_head(tmp_path / "model.gguf")
    with pytest.raises(ModelError, match="cannot be read"):
        read_head(tmp_path)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 400), at=st.integers(4, 380), wrong=st.binary(min_size=1, max_size=16))
def test_whatever_is_wrong_with_a_head_ends_in_a_model_error(tmp_path: Path, cut: int, at: int, wrong: bytes) -> None:
    content = bytearray(gguf())
    content[at : at + len(wrong)] = wrong
    path = tmp_path / "model.gguf"
    path.write_bytes(content[: len(content) - cut])
    try:
        read_head(path)
    except ModelError as error:
        assert "model.gguf" in error.message
