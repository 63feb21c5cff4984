"""What the embedded model says about bad settings and bad files. No weights are needed."""

from pathlib import Path
from typing import Any

import pytest

from beliefrag.errors import ModelError, ReplyError
from beliefrag.models.embedded import Embedded, _join_chunks
from beliefrag.models.protocol import ChatRequest, Message
from beliefrag.models.weights import find, path_of

REQUEST = ChatRequest("test", (Message("user", "hello"),))


async def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    model = Embedded(tmp_path / "none.gguf")
    with pytest.raises(ModelError, match=r"none\.gguf cannot be read.*path"):
        await model.chat(REQUEST)
    with pytest.raises(ModelError, match=r"none\.gguf"):
        _ = model.identity
    await model.aclose()


async def test_a_file_of_another_kind_is_not_given_to_the_runtime(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>404</html>")
    model = Embedded(tmp_path / "page.gguf")
    with pytest.raises(ModelError, match="not a GGUF"):
        await model.chat(REQUEST)
    await model.aclose()


async def test_weights_of_the_store_with_a_wrong_hash_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path))
    path = path_of(find("smollm2-135m"))
    path.parent.mkdir()
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(16))
    model = Embedded(path)
    with pytest.raises(ModelError, match=r"smollm2-135m .*damaged") as caught:
        await model.chat(REQUEST)
    assert "beliefrag model pull smollm2-135m" in caught.value.remedy
    await model.aclose()


def test_an_own_file_is_identified_by_its_name_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    identities = []
    for content in ("one", "two"):
        (tmp_path / content).mkdir()
        path = tmp_path / content / "my model.Q4.gguf"
        path.write_text(content)
        identities.append(Embedded(path).identity)
    assert identities == ["local:my_model.Q4:7692c3ad3540bb80", "local:my_model.Q4:3fc4ccfe745870e2"]


@pytest.mark.parametrize("chunks", [[], [{"choices": [{"delta": {"content": "half an ans"}, "finish_reason": None}]}]])
def test_a_stream_without_an_end_is_not_taken_for_a_reply(chunks: list[dict[str, Any]]) -> None:
    with pytest.raises(ReplyError, match="too early"):
        _join_chunks(chunks, REQUEST, 0.0)
