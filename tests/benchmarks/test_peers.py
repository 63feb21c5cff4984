"""The comparison with what people would pick instead: its server, and the way a peer is asked."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers import __main__ as peers
from tests.support.http_server import ChatServer, completion, failure


def _ask_lean(url: str, questions: int, folder: Path) -> list[dict[str, Any]]:
    """Return what lean as a peer replies to some questions about eight passages."""
    passages = [("Fram", "The Fram was designed by Colin Archer."), ("Nansen", "Nansen was born in 1861.")]
    passages += [(f"Place {number}", "A place in the north.") for number in range(6)]
    with gzip.open(folder / "corpus.jsonl.gz", "wt") as file:
        for title, text in passages:
            print(json.dumps({"id": title, "title": title, "text": text}), file=file)
    command = [sys.executable, str(peers.HERE / "lean_peer.py"), "corpus.jsonl.gz", url]
    asked = "".join(json.dumps({"question": f"Who designed it, {number}?"}) + "\n" for number in range(questions))
    ended = subprocess.run(command, input=asked, text=True, capture_output=True, check=True, cwd=folder, timeout=300)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def _with_probability(text: str, probability: float) -> Any:
    """Return a reply of one token, with its probability."""
    token = {"token": text, "logprob": math.log(probability)}
    return completion(text, logprobs={"content": [{**token, "top_logprobs": [token]}]})


def test_lean_reads_packed_passages_with_token_probabilities_and_answers_even_if_unsure(
    tmp_path: Path, chat_server: ChatServer
) -> None:
    chat_server.play(
        _with_probability("Archer", 0.95),
        _with_probability("Nansen", 0.3),
        failure(400, "exceeds the available context size"),
    )
    (tmp_path / "beliefrag.toml").write_text('method = "static"\n')
    replies = _ask_lean(chat_server.url, 3, tmp_path)
    ready, sure, unsure, failed = replies
    assert ready == {"ready": True}
    assert sure == {"answer": "Archer", "searches": 1}
    assert unsure == {"answer": "Nansen", "searches": 1}
    assert (failed["error"].split(":")[0], failed["searches"]) == ("TransportError", 1)

    sent = [request.body for request in chat_server.requests]
    assert len(sent) == 3, "each question took one call, and the failure was not repeated"
    assert all(body["logprobs"] and body["top_logprobs"] > 1 for body in sent)
    assert "The Fram was designed by Colin Archer." in sent[0]["messages"][-1]["content"]
