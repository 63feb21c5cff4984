"""`beliefrag doctor`: finds what is broken, says how to mend it, and never shows a key."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from beliefrag.models.weights import find, path_of
from tests.cli.shell import ANSWER, BORROWED, QUESTION, SURE, Ran, on_terminal, write_docs, write_script
from tests.cli.test_ask_mistakes import closed_port
from tests.support.http_server import ChatServer, completion, failure
from tests.support.messages import mentions

Command = Callable[..., Ran]
LOGPROBS = {"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "yes", "logprob": -0.1}]}]}


def findings(ran: Ran) -> dict[str, tuple[str, str]]:
    rows = [line.split("\t") for line in ran.out.splitlines()[1:]]
    return {name: (state, detail) for state, name, detail in rows}


def test_a_sound_installation_is_all_ok(beliefrag: Command, home: Path) -> None:
    docs = write_docs(home)
    model = ("--model", write_script(home, SURE, ANSWER), *BORROWED)
    beliefrag("ask", QUESTION, "--docs", docs, *model)
    beliefrag("index", docs, "--out", home / "ships")
    ran = beliefrag("doctor", *model, "--docs", docs, "--index", home / "ships")
    found = findings(ran)
    assert ran.code == 0
    assert found["openai"] == ("ok", metadata.version("openai"))
    assert found["python-docx"] == ("ok", metadata.version("python-docx"))
    assert found["cache folder"][0] == "ok"
    assert "GB free" in found["cache folder"][1]
    assert found["recorded replies"][1].startswith("2, from 1 model")
    assert found["documents"] == ("ok", "3 files")
    assert found["index"][0] == "ok"
    assert "3 passages, fingerprint" in found["index"][1]
    assert found["settings"] == ("ok", "from given")
    assert found["calibration"][0] == "warning"
    assert "borrowed, fitted for openai:gpt-oss-120b" in found["calibration"][1]


def test_the_folder_one_stands_in_can_be_named(beliefrag: Command, home: Path) -> None:
    write_docs(home)
    (home / "docs" / "photo.png").write_bytes(b"\x89PNG")
    model = write_script(home, ANSWER)
    state, detail = findings(beliefrag("doctor", "--docs", ".", "--model", model, *BORROWED))["documents"]
    assert state == "warning"
    assert detail.startswith("4 files, 1 skipped")
    assert "photo.png" in detail


def test_missing_weights_are_a_problem_with_the_command_that_mends_it(beliefrag: Command) -> None:
    ran = beliefrag("doctor")
    assert ran.code == 1
    state, detail = findings(ran)["model"]
    assert state == "problem"
    assert "beliefrag model pull qwen2.5-coder-1.5b" in detail


def test_damaged_weights_are_found_out(beliefrag: Command, home: Path) -> None:
    path = path_of(find("smollm2-135m"))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF and then nonsense")
    ran = beliefrag("doctor", "--model", "local:smollm2-135m")
    assert ran.code == 1
    assert findings(ran)["weights"][0] == "problem"
    assert "hash is wrong" in findings(ran)["weights"][1]
    assert "beliefrag model pull smollm2-135m" in findings(ran)["weights"][1]


def test_an_endpoint_is_asked_for_one_token(
    beliefrag: Command, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    chat_server.play(completion("yes"), completion("yes", logprobs=LOGPROBS))
    ran = beliefrag("doctor", "--model", "gpt-oss-120b", "--base-url", chat_server.url)
    found = findings(ran)
    assert ran.code == 0
    assert found["API key"] == ("ok", "OPENAI_API_KEY is set")
    assert found["model"] == ("ok", f"openai:gpt-oss-120b@{chat_server.url}")
    assert found["model answers"][1].startswith("one token in 0.")
    assert found["token probabilities"] == ("ok", "given")
    assert found["calibration"][0] == "warning"
    assert mentions(found["calibration"][1], "published", "prompts and retriever")
    assert [request.body["max_tokens"] for request in chat_server.requests] == [1, 1]
    assert chat_server.requests[1].body["logprobs"] is True
    assert "sk-very-secret-key" not in ran.out + ran.err


def test_probabilities_are_missed_only_where_the_verifier_needs_them(
    beliefrag: Command, chat_server: ChatServer
) -> None:
    chat_server.play(completion("yes"))
    given = ("doctor", "--model", "gpt-oss-120b", "--base-url", chat_server.url)
    assert findings(beliefrag(*given))["token probabilities"][0] == "ok"
    needed = beliefrag(*given, "--set", "verifier=probability")
    assert needed.code == 1
    assert findings(needed)["token probabilities"][0] == "problem"
    assert "verifier=graded" in findings(needed)["token probabilities"][1]


@pytest.mark.parametrize("place", ["option", "variable", "file"])
def test_a_server_without_a_model_is_checked_with_its_one_model(
    beliefrag: Command, home: Path, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    chat_server.play(completion("yes"), completion("yes", logprobs=LOGPROBS))
    monkeypatch.setattr("beliefrag.models.providers.list_server_models", lambda _: ["gpt-oss-120b"])
    if place == "variable":
        monkeypatch.setenv("BELIEFRAG_BASE_URL", chat_server.url)
    if place == "file":
        (home / "beliefrag.toml").write_text(f'base_url = "{chat_server.url}"\n')
    ran = beliefrag("doctor", *(("--base-url", chat_server.url) if place == "option" else ()))
    found = findings(ran)
    assert ran.code == 0
    assert found["model"] == ("ok", f"openai:gpt-oss-120b@{chat_server.url}")
    assert "weights" not in found and len(chat_server.requests) == 2


def test_a_server_with_several_models_is_a_row_that_lists_them_and_hides_no_other(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beliefrag.models.providers.list_server_models", lambda _: ["a", "b"])
    ran = beliefrag("doctor", "--base-url", "http://127.0.0.1:9/v1", "--docs", write_docs(home))
    found = findings(ran)
    assert ran.code == 1
    assert found["model"][0] == "problem"
    assert mentions(found["model"][1], "2 models: a, b.", "--model")
    assert (found["settings"], found["documents"]) == (("ok", "from given"), ("ok", "3 files"))
    assert "weights" not in found


def test_a_server_that_does_not_say_its_models_is_a_row_too(beliefrag: Command) -> None:
    ran = beliefrag("doctor", "--base-url", f"http://127.0.0.1:{closed_port()}/v1")
    assert ran.code == 1
    assert findings(ran)["model"][0] == "problem"
    assert mentions(findings(ran)["model"][1], "does not say which models it has", "--base-url", "--model")


@pytest.mark.parametrize(
    ("play", "words"),
    [
        (failure(401, "bad key sk-very-secret-key"), "rejected the API key"),
        (failure(404, "no such model"), "HTTP 404"),
        (None, "refused the connection"),
    ],
)
def test_the_part_of_the_endpoint_that_fails_is_named(
    beliefrag: Command, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, play: Any, words: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    url = chat_server.url if play else f"http://127.0.0.1:{closed_port()}/v1"
    if play:
        chat_server.play(play)
    ran = beliefrag("doctor", "--model", "gpt-oss-120b", "--base-url", url)
    assert ran.code == 1
    state, detail = findings(ran)["model answers"]
    assert state == "problem"
    assert words in detail
    assert "token probabilities" not in findings(ran)
    assert "sk-very-secret-key" not in ran.out + ran.err


def test_a_model_that_says_nothing_within_one_token_was_reached_all_the_same(
    beliefrag: Command, chat_server: ChatServer
) -> None:
    chat_server.play(completion("", finish="length"))
    ran = beliefrag("doctor", "--model", "gpt-oss-120b", "--base-url", chat_server.url)
    assert ran.code == 0
    assert findings(ran)["model answers"][0] == "warning"


def test_a_hosted_model_without_a_key_is_told_so(beliefrag: Command) -> None:
    ran = beliefrag("doctor", "--model", "gpt-oss-120b")
    assert ran.code == 1
    assert findings(ran)["API key"][0] == "warning"
    assert "no API key" in findings(ran)["model answers"][1]


def test_every_broken_thing_has_its_row_and_none_hides_another(beliefrag: Command, home: Path) -> None:
    cache = home.parent / "cache"
    cache.mkdir()
    (cache / "replies.sqlite").write_text("no database at all, but long enough to be looked at" * 20)
    (home / "beliefrag.toml").write_text("colour = 'red'\n")
    ran = beliefrag("doctor", "--docs", home / "nowhere", "--index", home, "--model", write_script(home, ANSWER))
    found = findings(ran)
    assert ran.code == 1
    broken = {name for name, (state, _) in found.items() if state == "problem"}
    assert broken == {"recorded replies", "settings", "model", "documents", "index"}
    assert "no setting 'colour'" in found["settings"][1]


def test_wrong_words_in_the_settings_of_the_model_are_rows_too(beliefrag: Command, home: Path) -> None:
    model = ("--model", write_script(home, ANSWER))
    found = findings(beliefrag("doctor", *model, "--set", f"prompts={home / 'none'}", "--set", "verifier=tea-leaves"))
    assert found["prompts"][0] == "problem"
    assert found["verifier"][0] == "problem"
    assert found["calibration"][0] == "problem"
    assert "--borrow published" in found["calibration"][1]


def test_a_cache_folder_that_is_a_file_is_a_problem(beliefrag: Command, home: Path) -> None:
    (home.parent / "cache").write_text("in the way")
    ran = beliefrag("doctor", "--model", write_script(home, ANSWER), *BORROWED)
    assert ran.code == 1
    assert findings(ran)["cache folder"][0] == "problem"
    assert "BELIEFRAG_CACHE_DIR" in findings(ran)["cache folder"][1]


def test_a_package_that_breaks_when_imported_is_named(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def broken(name: str, package: str | None = None) -> Any:
        if name == "tantivy":
            raise ImportError("libfoo.so is missing")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", broken)
    ran = beliefrag("doctor", "--model", write_script(home, ANSWER), *BORROWED)
    assert ran.code == 1
    state, detail = findings(ran)["tantivy"]
    assert state == "problem"
    assert "libfoo.so is missing" in detail
    assert "pip install --force-reinstall tantivy" in detail


def test_a_calibration_made_with_other_prompts_is_a_problem_and_borrowed_it_is_doubted(
    beliefrag: Command, home: Path
) -> None:
    model = write_script(home, ANSWER)
    from beliefrag.calibration import load_artifact
    from beliefrag.models.scripted import Scripted

    own = load_artifact("published").model_dump(mode="json")
    own |= {
        "name": "mine",
        "backbone": Scripted(model.removeprefix("scripted:")).identity,
        "prompts": {"answer": "0" * 16},
    }
    (home / "mine.json").write_text(json.dumps(own))
    for option, expected in (("calibration", "problem"), ("borrow", "warning")):
        ran = beliefrag(
            "doctor", "--model", model, "--set", f"{option}={home / 'mine.json'}", "--set", "verifier=graded"
        )
        state, detail = findings(ran)["calibration"]
        assert state == expected
        assert "other prompts (answer)" in detail
        assert "structured verifier, not graded" in detail


def test_a_retriever_that_is_not_known_is_a_problem_that_names_those_there_are(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("doctor", "--model", write_script(home, SURE), *BORROWED, "--set", "retriever=bm52")
    state, detail = findings(ran)["retriever"]
    assert (ran.code, state) == (1, "problem")
    assert "'bm52'" in detail and "bm25" in detail


def test_a_terminal_gets_a_table_that_fits(home: Path) -> None:
    code, screen = on_terminal("doctor", "--model", write_script(home, ANSWER), *BORROWED)
    assert code == 0
    assert "what to do" in screen
    assert "\t" not in screen
