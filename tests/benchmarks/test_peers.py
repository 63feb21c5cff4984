"""The comparison with what people would pick instead: its server, and the way a peer is asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import httpx2
import pytest

from beliefrag.models.weights import find, is_present, path_of
from benchmarks.peers import __main__ as peers
from benchmarks.peers.model_server import ModelServer, serve_weights

_ECHO = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)["question"]
    print(json.dumps({"error": "it broke"} if asked == "hard" else {"answer": asked.upper()}), flush=True)
"""


def test_a_peer_is_asked_line_by_line_and_a_failure_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "echo.py").write_text(_ECHO)
    monkeypatch.setattr(peers, "HERE", tmp_path)
    monkeypatch.setattr(peers, "prepare_environment", lambda peer: Path(sys.executable))
    questions = [{"id": 1, "question": "easy"}, {"id": 2, "question": "hard"}]
    told = list(peers.ask_peer(peers.Peer("Echo", "echo.py", (), "none"), "hotpotqa", questions, ModelServer()))
    assert [each.get("answer") for each in told] == ["EASY", None]
    assert [each.get("error") for each in told] == [None, "it broke"]
    assert [each["question_id"] for each in told] == ["1", "2"]


@pytest.mark.weights
def test_the_server_answers_and_counts_what_it_is_asked() -> None:
    weights = find("smollm2-135m")
    if not is_present(weights):
        pytest.skip("the weights of smollm2-135m are not here")
    body = {"model": "any", "messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 8}
    with serve_weights(path_of(weights), threads=1) as server:
        reply = httpx2.post(f"{server.url}/chat/completions", content=json.dumps(body), timeout=120).json()
        assert reply["choices"][0]["message"]["content"]
        assert (server.calls, server.tokens) == (1, reply["usage"]["total_tokens"])
        server.reset()
        assert (server.calls, server.tokens) == (0, 0)
