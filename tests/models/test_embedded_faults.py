"""What the embedded model says about bad settings and bad files. No weights are needed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beliefrag.errors import ModelError, ReplyError, SettingsError
from beliefrag.models.embedded import Embedded, PromptTooLongError, join_chunks
from beliefrag.models.protocol import ChatRequest, Message
from beliefrag.models.weights import find, path_of

REQUEST = ChatRequest("test", (Message("user", "hello"),))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"context": 100}, "context .*256, not 100"),
        ({"threads": 0}, "threads .*1, not 0"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"prompt_memory_mib": -1}, "prompt_memory_mib"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_once(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Embedded("model.gguf", **settings)


async def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    model = Embedded(tmp_path / "none.gguf")
    with pytest.raises(ModelError, match=r"no file .*none\.gguf\b.*path"):
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


async def test_closing_a_model_that_was_never_used_is_harmless(tmp_path: Path) -> None:
    model = Embedded(tmp_path / "none.gguf")
    await model.aclose()
    await model.aclose()


def test_importing_the_package_does_not_import_the_runtime() -> None:
    code = (
        "import beliefrag, beliefrag.models.embedded, os, sys;"
        "print('xllamacpp' in sys.modules, os.environ.get('OMP_WAIT_POLICY'))"
    )
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "False None\n"


def test_a_stream_without_an_end_is_not_taken_for_a_reply() -> None:
    chunk = {"choices": [{"delta": {"content": "half an ans"}, "finish_reason": None}]}
    with pytest.raises(ReplyError, match="too early"):
        join_chunks([chunk])
    with pytest.raises(ReplyError, match="too early"):
        join_chunks([])


def test_errors_in_a_stream_are_told_apart() -> None:
    too_long = {"type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 900, "n_ctx": 512}
    with pytest.raises(PromptTooLongError) as caught:
        join_chunks([{"error": too_long}])
    assert (caught.value.tokens, caught.value.context) == (900, 512)
    with pytest.raises(ModelError, match=r"refused .*: no such role"):
        join_chunks([{"error": {"type": "invalid_request_error", "message": "no such\nrole"}}])
