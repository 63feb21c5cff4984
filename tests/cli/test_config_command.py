"""`beliefrag config`, `prompt` and `doctor`: settings and their sources, prompts and hashes, and problems."""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from beliefrag.models.weights import find, path_of
from beliefrag.prompts import NAMES, Prompts
from tests.cli.shell import ANSWER, BORROWED, SURE, Ran, closed_port, on_terminal, write_script
from tests.support.http_server import ChatServer, completion, failure
from tests.support.messages import mentions

Command = Callable[..., Ran]


def test_json_is_one_object_by_name(beliefrag: Command, home: Path) -> None:
    (home / "other.toml").write_text('prompts = "words"\n')
    record = beliefrag("config", "show", "--json", "--config", home / "other.toml").record
    assert record["budget.rounds"] == {"value": 3, "source": "default"}
    assert record["prompts"] == {"value": "words", "source": str(home / "other.toml")}
    assert record["base_url"] == {"value": None, "source": "default"}


def test_request_options_of_the_command_line_reach_the_server(beliefrag: Command, chat_server: ChatServer) -> None:
    options = ("reasoning_effort=low", "chat_template_kwargs.enable_thinking=false", 'extra_body={"top_k": 1}')
    given = [word for each in options for word in ("--set", f"models.openai.{each}")]
    chat_server.play(completion("yes"))
    beliefrag("doctor", "--model", "m", "--base-url", chat_server.url, *BORROWED, *given)
    sent = {"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": False}, "top_k": 1}
    assert chat_server.requests[0].body.items() >= sent.items()
    ran = beliefrag("doctor", "--model", "m", "--set", "models.openai.extra_body={")
    assert "extra_body is not a JSON object" in ran.out


def test_doctor_shows_what_the_server_does_not_take_and_forgets_it(beliefrag: Command, chat_server: ChatServer) -> None:
    rejected = failure(400, "Unsupported parameter: 'logprobs'")
    chat_server.play(lambda request: rejected if "logprobs" in request.body else completion("yes"))
    given = ("doctor", "--model", "m", "--base-url", chat_server.url, *BORROWED)
    for more, asked in (((), 3), ((), 2), (("--forget",), 3)):
        chat_server.requests.clear()
        assert "does not take token probabilities" in beliefrag(*given, *more).out
        assert len(chat_server.requests) == asked


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_a_key_in_an_address_is_not_shown(
    beliefrag: Command, monkeypatch: pytest.MonkeyPatch, flag: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BELIEFRAG_BASE_URL", "https://me:hunter2@host.example:8443/v1?key=abcdef123456#frag")
    monkeypatch.setenv("BELIEFRAG_MODELS__OPENAI__HEADERS", '{"api-key": "hunter3"}')
    ran = beliefrag("config", "show", *flag)
    assert "host.example:8443/v1" in ran.out
    for secret in ("hunter2", "abcdef123456", "me:", "hunter3"):
        assert secret not in ran.out


def test_the_list_has_every_prompt_with_its_hash(beliefrag: Command) -> None:
    rows = [line.split("\t") for line in beliefrag("prompt").out.splitlines()[1:]]
    assert [row[0] for row in rows] == list(NAMES)
    assert {name: digest for name, digest, _ in rows} == Prompts.load().hashes()
    assert {row[2] for row in rows} == {"ours"}


def test_one_prompt_can_be_saved_changed_and_used(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("prompt", "answer")
    shipped = Prompts.load()
    assert ran.out == shipped.templates["answer"] + "\n"
    assert ran.err == f"answer {shipped.hashes()['answer']}\n"
    folder = home / "words"
    folder.mkdir()
    (folder / "answer.txt").write_text(ran.out)
    assert Prompts.load(folder).hashes() == shipped.hashes()
    (folder / "answer.txt").write_text(ran.out + "Be brief.\n")
    rows = [line.split("\t") for line in beliefrag("prompt", "--set", f"prompts={folder}").out.splitlines()[1:]]
    assert [name for name, _, whose in rows if whose == "replaced"] == ["answer"]
    assert beliefrag("prompt", "answer", "--set", f"prompts={folder}").out.endswith("Be brief.\n")


def test_a_terminal_does_not_obey_a_prompt(home: Path) -> None:
    (home / "words").mkdir()
    (home / "words" / "rewriter.txt").write_text("{question} \x1b]0;owned\x07")
    code, screen = on_terminal("prompt", "rewriter", "--set", f"prompts={home / 'words'}")
    assert code == 0
    assert "\x1b" not in screen


LOGPROBS = {"content": [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "yes", "logprob": -0.1}]}]}


def findings(ran: Ran) -> dict[str, tuple[str, str]]:
    rows = [line.split("\t") for line in ran.out.splitlines()[1:]]
    return {name: (state, detail) for state, name, detail in rows}


def test_a_sound_installation_is_all_ok(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("doctor", "--model", write_script(home, SURE, ANSWER), *BORROWED)
    found = findings(ran)
    assert ran.code == 0
    assert found["beliefrag"] == ("ok", f"{metadata.version('beliefrag')}, Python {platform.python_version()}")
    assert found["cache folder"][0] == "ok"
    assert "GB free" in found["cache folder"][1]
    assert found["settings"] == ("ok", "from BELIEFRAG_ANSWER_STYLE, an option")
    assert found["calibration"][0] == "warning"
    assert "borrowed, fitted for openai:gpt-oss-120b" in found["calibration"][1]


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


def test_an_endpoint_is_asked_for_one_word(
    beliefrag: Command, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key")
    chat_server.play(completion("yes"), completion("yes", logprobs=LOGPROBS))
    ran = beliefrag("doctor", "--model", "gpt-oss-120b", "--base-url", chat_server.url)
    found = findings(ran)
    assert ran.code == 0
    assert found["API key"] == ("ok", "OPENAI_API_KEY is set")
    assert found["model"] == ("ok", f"openai:gpt-oss-120b@{chat_server.url}")
    assert found["model answers"][1].startswith("one word in ")
    assert found["token probabilities"] == ("ok", "given")
    assert found["calibration"][0] == "warning"
    assert mentions(found["calibration"][1], "any-model", "none was fitted", "beliefrag calibrate auto")
    assert [request.body["max_tokens"] for request in chat_server.requests] == [64, 64]
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


def test_every_broken_thing_has_its_row_and_none_hides_another(beliefrag: Command, home: Path) -> None:
    (home.parent / "cache").write_text("a file in the place of the folder")
    (home / "beliefrag.toml").write_text("colour = 'red'\n")
    ran = beliefrag("doctor")
    found = findings(ran)
    assert ran.code == 1
    assert {name for name, (state, _) in found.items() if state == "problem"} == {"cache folder", "settings", "model"}
    assert "Unknown setting 'colour'" in found["settings"][1]
