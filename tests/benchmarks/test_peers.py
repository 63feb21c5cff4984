"""The comparison with what people would pick instead: its server, and the way a peer is asked."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from beliefrag import BeliefRAG
from beliefrag.models.weights import find, is_present, path_of
from beliefrag.settings import cache_dir
from beliefrag.types import Passage
from benchmarks.peers import __main__ as peers
from benchmarks.peers import tutorial
from benchmarks.peers.lean_peer import make_settings
from benchmarks.peers.model_server import ModelServer, read_written_call, serve_weights
from tests.support.http_server import ChatServer, completion, failure

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


def test_a_peer_of_the_documentation_gets_the_page_and_the_server_reads_as_the_peer_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "echo.py").write_text(_ECHO.replace("asked.upper()", "sys.argv[-1]"))
    monkeypatch.setattr(peers, "HERE", tmp_path)
    monkeypatch.setattr(peers, "prepare_environment", lambda peer: Path(sys.executable))
    monkeypatch.setattr(peers, "prepare_tutorial", lambda folder: Path("the page"))
    server = ModelServer(url="the server")
    for name, last, reads in [
        ("langgraph_agentic_read", "the page", True),
        ("langgraph_agentic", "the page", False),
        ("llamaindex", "default", False),
    ]:
        peer = replace(peers.PEERS[name], script="echo.py")
        (told,) = peers.ask_peer(peer, "hotpotqa", [{"id": 1, "question": "easy"}], server)
        assert (told["answer"], server.reads_written_calls) == (last, reads)


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


class _Engine:
    """Stands in for llama.cpp's server: refuses long requests as it does, and calls a tool in a code block."""

    def __init__(self, parameters: Any) -> None:
        assert parameters.use_jinja, "without it the tools are not in the prompt"

    def handle_chat_completions(self, body: dict[str, Any]) -> dict[str, Any]:
        if len(body["messages"][0]["content"]) > 1000:
            return {"error": {"code": 413, "message": "exceeds the available context size", "type": "too_long"}}
        until = time.process_time() + 0.05
        while time.process_time() < until:
            pass
        time.sleep(0.4)
        message = {"role": "assistant", "content": f"```json\n{_WRITTEN}\n```"}
        choice: dict[str, Any] = {"message": message, "finish_reason": "stop"}
        if body.get("logprobs"):
            token = {"token": "a", "logprob": -0.1}
            choice["logprobs"] = {"content": [{**token, "top_logprobs": [token] * body["top_logprobs"]}]}
        return {"choices": [choice], "usage": {"total_tokens": 7}}


_WRITTEN = '{"name": "search", "arguments": {"query": "Fram"}}'
_TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {}}}]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def parameters() -> SimpleNamespace:
        parts = {name: SimpleNamespace() for name in ("model", "cpuparams", "cpuparams_batch")}
        return SimpleNamespace(**parts)

    monkeypatch.setitem(sys.modules, "xllamacpp", SimpleNamespace(CommonParams=parameters, Server=_Engine))


@pytest.mark.usefixtures("engine")
def test_what_llama_cpp_refuses_is_refused_with_its_status_and_counted() -> None:
    with serve_weights(Path("any"), threads=1) as server:
        body = {"messages": [{"role": "user", "content": "long " * 500}]}
        reply = httpx2.post(f"{server.url}/chat/completions", content=json.dumps(body), timeout=20)
        assert reply.status_code == 413
        assert "context size" in reply.json()["error"]["message"]
        assert (server.calls, server.tokens, server.errors) == (1, 0, ["exceeds the available context size"])


@pytest.mark.usefixtures("engine")
def test_a_call_whose_client_gave_up_does_not_count_for_the_next_question() -> None:
    with serve_weights(Path("any"), threads=1) as server:
        body = json.dumps({"messages": [{"role": "user", "content": "Who built it?"}]})
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(f"{server.url}/chat/completions", content=body, timeout=0.1)
        server.reset()
        httpx2.post(f"{server.url}/chat/completions", content=body, timeout=20)
        assert (server.calls, server.tokens) == (1, 7)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("reads", [True, False])
def test_a_written_tool_call_counts_as_one_only_where_the_peer_asks_for_that(reads: bool) -> None:
    with serve_weights(Path("any"), threads=1) as server:
        server.reads_written_calls = reads
        body = {"messages": [{"role": "user", "content": "Who built it?"}], "tools": _TOOLS}
        reply = httpx2.post(f"{server.url}/chat/completions", content=json.dumps(body), timeout=20).json()
        assert 0.05 <= server.processor_seconds < 0.4, "computing counts, and waiting does not"
    message = reply["choices"][0]["message"]
    assert bool(message.get("tool_calls")) is reads
    assert (message["content"] is None) is reads


@pytest.mark.parametrize("text", [_WRITTEN, f"```json\n{_WRITTEN}\n```", f"\n```\n{_WRITTEN}```\n"])
def test_a_reply_that_is_a_written_call_becomes_a_tool_call(text: str) -> None:
    reply = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    read_written_call({"tools": _TOOLS}, reply)
    choice: dict[str, Any] = reply["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    function = choice["message"]["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == ("search", {"query": "Fram"})


@pytest.mark.parametrize(
    "text",
    ["Colin Archer", f"I will search: {_WRITTEN}", _WRITTEN.replace("search", "buy"), "[1]", "", None, '"search"'],
)
def test_a_reply_that_is_anything_else_stays_as_it_is(text: str | None) -> None:
    reply = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    read_written_call({"tools": _TOOLS}, reply)
    assert reply == {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


# Made for these tests in the form of LangGraph's page; its own words are not in this repository.
_PAGE = """
# A page
:::python
```python
pip install -U something
```

1. A node:
  ```python
  from somewhere import chat_model

  response_model = chat_model("large")


  def generate_query_or_respond(state: MessagesState):
      return {"messages": [response_model.bind_tools([retriever_tool]).invoke(state["messages"])]}
  ```
  ```python
  GRADE_PROMPT = "Is this about {question}? {context}"


  class GradeDocuments(BaseModel):
      binary_score: str = Field(description="yes or no")


  def grade_documents(state: MessagesState) -> Literal["generate_answer", "rewrite_question"]:
      first, last = state["messages"][0].content, state["messages"][-1].content
      asked = [{"role": "user", "content": GRADE_PROMPT.format(question=first, context=last)}]
      score = grader_model.with_structured_output(GradeDocuments).invoke(asked).binary_score
      return "generate_answer" if score == "yes" else "rewrite_question"
  ```
  ```python
  REWRITE_PROMPT = "Ask better: {question}"


  def rewrite_question(state: MessagesState):
      asked = REWRITE_PROMPT.format(question=state["messages"][0].content)
      return {"messages": [HumanMessage(content=response_model.invoke(asked).content)]}
  ```
  ```python
  GENERATE_PROMPT = "Answer {question} from {context}"


  def generate_answer(state: MessagesState):
      first, last = state["messages"][0].content, state["messages"][-1].content
      return {"messages": [response_model.invoke(GENERATE_PROMPT.format(question=first, context=last))]}
  ```
  ```python
  response = generate_answer(input)
  ```
:::

:::js
```typescript
const GRADE_PROMPT = "not this one";
```
:::
"""


def test_prompts_scheme_and_nodes_are_cut_from_the_page_and_nothing_else() -> None:
    definitions = tutorial.cut_definitions(_PAGE)
    assert 'GRADE_PROMPT = "Is this about {question}? {context}"\n' in definitions
    assert [line.split("(")[0] for line in definitions.splitlines() if line.startswith(("def ", "class "))] == [
        "def generate_query_or_respond",
        "class GradeDocuments",
        "def grade_documents",
        "def rewrite_question",
        "def generate_answer",
    ]
    for other in ("pip install", "chat_model", "not this one", "response = generate_answer"):
        assert other not in definitions


def test_the_page_is_fetched_once_and_its_definitions_are_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "agentic-rag.mdx"
    source.write_text(_PAGE)
    monkeypatch.setattr(tutorial, "PAGE", source.as_uri())
    monkeypatch.setattr(tutorial, "DIGEST", hashlib.sha256(tutorial.cut_definitions(_PAGE).encode()).hexdigest())
    cut = tutorial.prepare_tutorial(tmp_path / "cache")
    assert cut.read_text() == tutorial.cut_definitions(_PAGE)
    source.unlink()
    assert tutorial.prepare_tutorial(tmp_path / "cache") == cut


def test_a_page_with_other_prompts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "agentic-rag.mdx").write_text(_PAGE)
    with pytest.raises(SystemExit, match="other prompts"):
        tutorial.prepare_tutorial(tmp_path)


def test_a_page_that_cannot_be_fetched_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tutorial, "PAGE", (tmp_path / "nowhere" / "agentic-rag.mdx").as_uri())
    with pytest.raises(SystemExit, match=r"Save file:.*nowhere/agentic-rag\.mdx as "):
        tutorial.prepare_tutorial(tmp_path)


def _ask(environment: str | None, script: str, *arguments: str, questions: int, folder: Path) -> list[dict[str, Any]]:
    """What a real peer says to some questions about eight passages. None as the environment is our own."""
    python = cache_dir() / "peers" / environment / "bin" / "python" if environment else Path(sys.executable)
    if not python.exists():
        pytest.skip(f"the virtual environment of {environment} is not here; benchmarks.peers run makes it")
    passages = [("Fram", "The Fram was designed by Colin Archer."), ("Nansen", "Nansen was born in 1861.")]
    passages += [(f"Place {number}", "A place in the north.") for number in range(6)]
    with gzip.open(folder / "corpus.jsonl.gz", "wt") as file:
        for title, text in passages:
            print(json.dumps({"id": title, "title": title, "text": text}), file=file)
    command = [str(python), str(peers.HERE / script), "corpus.jsonl.gz", *arguments]
    asked = "".join(json.dumps({"question": f"Who designed it, {number}?"}) + "\n" for number in range(questions))
    ended = subprocess.run(command, input=asked, text=True, capture_output=True, check=True, cwd=folder, timeout=300)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_the_graph_searches_grades_rewrites_and_answers(tmp_path: Path, chat_server: ChatServer) -> None:
    def call(query: str) -> Any:
        function = {"name": "retrieve_passages", "arguments": json.dumps({"query": query})}
        return completion(None, message={"tool_calls": [{"id": query, "type": "function", "function": function}]})

    graded_no, graded_yes = (completion(json.dumps({"binary_score": score})) for score in ("no", "yes"))
    chat_server.play(
        *(call("Nansen"), graded_no, completion("Who drew it?"), call("Fram"), graded_yes, completion("Archer")),
        completion("No need to search."),
        *(call("Nansen"), completion("neither yes nor no")),
        failure(400, "exceeds the available context size"),
        *(call("Nansen"), graded_no, completion("Who drew it?")) * 9,
    )
    (tmp_path / "definitions.py").write_text(tutorial.cut_definitions(_PAGE))
    replies = _ask("langgraph", "langgraph_peer.py", chat_server.url, "definitions.py", questions=5, folder=tmp_path)
    ready, found, direct, unread, too_long, endless = replies
    assert ready == {"ready": True}
    assert found == {"answer": "Archer", "searches": 2}
    assert direct == {"answer": "No need to search.", "searches": 0}
    assert (unread["error"].split(":")[0], unread["searches"]) == ("ValidationError", 1)
    assert (too_long["error"].split(":")[0], too_long["searches"]) == ("OpenAIInvalidRequestError", 0)
    assert (endless["error"].split(":")[0], endless["searches"]) == ("GraphRecursionError", 8)

    sent = [request.body for request in chat_server.requests]
    assert sent[0]["tools"][0]["function"]["name"] == "retrieve_passages"
    found_first = sent[1]["messages"][0]["content"]
    assert found_first.startswith("Is this about Who designed it, 0?? Nansen\nNansen was born in 1861.\n\n")
    assert found_first.count("\n\n") == 3, "four passages"
    assert sent[1]["response_format"]["json_schema"]["name"] == "GradeDocuments"
    assert sent[3]["messages"][-1] == {"role": "user", "content": "Who drew it?"}
    assert "Answer Who designed it, 0? from Fram\nThe Fram was designed" in sent[5]["messages"][0]["content"]


def test_llamaindex_searches_once_and_its_multi_step_engine_not_at_all_when_the_model_says_none(
    tmp_path: Path, chat_server: ChatServer
) -> None:
    chat_server.play(completion("Archer"))
    _, told = _ask("llamaindex", "llamaindex_peer.py", chat_server.url, "default", questions=1, folder=tmp_path)
    assert told == {"answer": "Archer", "searches": 1}
    chat_server.play(completion("None"))
    _, told = _ask("llamaindex", "llamaindex_peer.py", chat_server.url, "multistep", questions=1, folder=tmp_path)
    assert told == {"answer": "Empty Response", "searches": 0}
    chat_server.play(completion("Who drew the Fram?"), completion("Archer"), completion("None"), completion("Archer"))
    _, told = _ask("llamaindex", "llamaindex_peer.py", chat_server.url, "multistep", questions=1, folder=tmp_path)
    assert told == {"answer": "Archer", "searches": 1}


def _with_probability(text: str, probability: float) -> Any:
    """A reply of one token, with its probability."""
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
    replies = _ask(None, "lean_peer.py", chat_server.url, questions=3, folder=tmp_path)
    ready, sure, unsure, failed = replies
    assert ready == {"ready": True}
    assert sure == {"answer": "Archer", "searches": 1}
    assert unsure == {"answer": "Nansen", "searches": 1}
    assert (failed["error"].split(":")[0], failed["searches"]) == ("TransportError", 1)

    sent = [request.body for request in chat_server.requests]
    assert len(sent) == 3, "each question took one call, and the failure was not repeated"
    assert all(body["logprobs"] and body["top_logprobs"] > 1 for body in sent)
    assert "The Fram was designed by Colin Archer." in sent[0]["messages"][-1]["content"]


def test_lean_searches_and_packs_as_by_default_and_keeps_no_reply(chat_server: ChatServer) -> None:
    chat_server.play(_with_probability("Archer", 0.9), _with_probability("Nansen", 0.9))
    passages = [Passage("1", "Fram", "The Fram was designed by Colin Archer.")]
    with BeliefRAG(passages=passages, settings=make_settings(chat_server.url)) as rag:
        first, second = (rag.ask("Who designed the Fram?") for _ in range(2))
    assert (first.answer, second.answer) == ("Archer", "Nansen"), "the second reply came from the server too"
    assert (first.method, first.verifier, first.made_with["pack"]) == ("lean", "draft", "160 words")
    assert first.made_with["retriever"].startswith("linked ")


@pytest.mark.usefixtures("engine")
def test_the_server_passes_token_probabilities_on() -> None:
    with serve_weights(Path("any"), threads=1) as server:
        body = {"messages": [{"role": "user", "content": "Who?"}], "logprobs": True, "top_logprobs": 5}
        reply = httpx2.post(f"{server.url}/chat/completions", content=json.dumps(body), timeout=20).json()
    assert len(reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 5


def test_a_peer_without_requirements_runs_in_our_own_interpreter() -> None:
    assert peers.prepare_environment(peers.PEERS["lean_served"]) == Path(sys.executable)
    assert next(iter(peers.PEERS)) == "lean_served", "it is asked first"
