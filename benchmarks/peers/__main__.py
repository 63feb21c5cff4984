"""Asks what people would pick instead the same questions, on the same weights and passages.

    python -m benchmarks.peers run --like runs/linked_packed --n 10 --out runs/peers.jsonl
    python -m benchmarks.peers report runs/peers.jsonl --like runs/linked_packed --json docs/results/peers.json
    python -m benchmarks.peers clapnq --out docs/results/clapnq_llamaindex.jsonl.gz

Our own method lean is asked beside them, through the same server. Each other peer runs in a virtual environment of its
own, which is made on first use. The questions are the first ones of each multi-hop set in a run of `benchmarks.decide`,
whose methods stand beside the peers in the report. `clapnq` asks LlamaIndex questions whose answers are sentences, for
`benchmarks.whole_answers`. Every answer is written down when it is there: the same command goes
on where it was ended.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beliefrag import bench
from beliefrag.models.weights import DEFAULT, find, path_of
from beliefrag.settings import cache_dir
from benchmarks.asked import read_lines as read_compressed
from benchmarks.asked import take_turns
from benchmarks.find.mixed_corpus import MULTI_HOP, data_folder
from benchmarks.peers.model_server import ModelServer, serve_weights
from benchmarks.peers.results import SERVED, Report, score_method, score_peer
from benchmarks.peers.tutorial import prepare_tutorial

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Peer:
    """A system that is asked through the server: its script, the arguments of it, and what it needs."""

    title: str
    script: str
    arguments: tuple[str, ...]
    requirements: str | None
    """The name of its file of requirements and of its environment; None runs it in our own interpreter."""
    needs_tutorial: bool = False
    """Whether it runs the page of its documentation."""
    reads_written_calls: bool = False
    """Whether the server takes a tool call that the model wrote as JSON text for one."""


PEERS = {
    SERVED: Peer("BeliefRAG, lean", "lean_peer.py", (), None),
    "llamaindex": Peer("LlamaIndex, BM25", "llamaindex_peer.py", ("default",), "llamaindex"),
    "llamaindex_multistep": Peer("LlamaIndex, multi-step", "llamaindex_peer.py", ("multistep",), "llamaindex"),
    "langgraph_agentic": Peer(
        "LangGraph, agentic RAG of its documentation", "langgraph_peer.py", (), "langgraph", needs_tutorial=True
    ),
    "langgraph_agentic_read": Peer(
        "the same, tool calls in code blocks read",
        "langgraph_peer.py",
        (),
        "langgraph",
        needs_tutorial=True,
        reads_written_calls=True,
    ),
}


def prepare_environment(peer: Peer) -> Path:
    """Make the virtual environment of a peer where it needs one that is not there yet, and return its Python."""
    if peer.requirements is None:
        return Path(sys.executable)
    folder = cache_dir() / "peers" / peer.requirements
    python = folder / "bin" / "python"
    done = folder / ".ready"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        needs = HERE / f"requirements-{peer.requirements}.txt"
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "-r", str(needs)], check=True)
        done.touch()
    return python


def ask_peer(peer: Peer, dataset: str, questions: Iterable[Any], server: ModelServer) -> Iterator[dict[str, Any]]:
    """Yield what a peer answers, with tokens, calls and seconds."""
    corpus = data_folder() / dataset / "corpus.jsonl.gz"
    command = [str(prepare_environment(peer)), str(HERE / peer.script), str(corpus), server.url, *peer.arguments]
    if peer.needs_tutorial:
        command.append(str(prepare_tutorial(cache_dir() / "peers")))
    server.reads_written_calls = peer.reads_written_calls
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        if not process.stdout.readline():
            raise SystemExit(f"{peer.title} did not start: see its message above.")
        for question in questions:
            server.reset()
            started = time.monotonic()
            print(json.dumps({"question": question["question"]}), file=process.stdin, flush=True)
            told = json.loads(process.stdout.readline())
            yield {
                "dataset": dataset,
                "question_id": str(question["id"]),
                **told,
                "calls": server.calls,
                "tokens": server.tokens,
                "seconds": round(time.monotonic() - started, 1),
                "processor_seconds": round(server.processor_seconds, 1),
            }
        process.stdin.close()


def run_peers(names: Iterable[str], like: Path, n: int, out: Path, threads: int) -> None:
    """Ask all peers, and go on where an earlier call was ended."""
    chosen = bench.Run.open(like).record.datasets
    done = {(each["peer"], each["question_id"]) for each in read_lines(out)}
    out.parent.mkdir(parents=True, exist_ok=True)
    with serve_weights(path_of(find(DEFAULT)), threads=threads) as server, out.open("a") as file:
        for name in names:
            for dataset in MULTI_HOP:
                ids = [each for each in chosen[dataset].question_ids[:n] if (name, each) not in done]
                if not ids:
                    continue
                known = read_questions(dataset)
                for told in ask_peer(PEERS[name], dataset, [known[each] for each in ids], server):
                    print(json.dumps({"peer": name, **told}), file=file, flush=True)
                    print(
                        f"{name} {dataset}: {told.get('answer', told.get('error'))!r:.60}, {told['seconds']} s",
                        flush=True,
                    )


def ask_clapnq(out: Path, answerable: int, unanswerable: int, threads: int) -> None:
    """Ask LlamaIndex's default engine the first questions of CLAPNQ, and go on where an earlier call was ended."""
    done = {line["question_id"] for line in read_compressed(out)} if out.exists() else set()
    questions = take_turns(list(read_questions("clapnq").values()))
    chosen = [one for one in questions if one["answerable"]][:answerable]
    chosen += [one for one in questions if not one["answerable"]][:unanswerable]
    left = [one for one in take_turns(chosen, "answerable") if one["id"] not in done]
    with serve_weights(path_of(find(DEFAULT)), threads=threads) as server:
        for told in ask_peer(PEERS["llamaindex"], "clapnq", left, server):
            with gzip.open(out, "at", encoding="utf-8") as file:
                print(json.dumps(told), file=file)


def read_questions(dataset: str) -> dict[str, Any]:
    """Return the questions of a set by their ids."""
    with gzip.open(data_folder() / dataset / "questions.jsonl.gz", "rt", encoding="utf-8") as lines:
        return {str(each["id"]): each for each in map(json.loads, lines)}


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return what has been written down so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def collect_outcomes(path: Path, like: Path) -> Report:
    """Return the outcomes of the peers, and of the run's methods on the questions that peers were asked."""
    lines = read_lines(path)
    asked = {(line["dataset"], line["question_id"]) for line in lines}
    known = {name: read_questions(name) for name in MULTI_HOP}
    outcomes = [score_peer(line, known[line["dataset"]][line["question_id"]]["answers"]) for line in lines]
    outcomes += [
        score_method(episode)
        for episode in bench.Run.open(like).episodes()
        if (episode.key.dataset, episode.key.question_id) in asked
    ]
    titles = {each.system: f"{each.system}, of the run" for each in outcomes if each.system not in PEERS}
    return Report({name: peer.title for name, peer in PEERS.items()} | titles, outcomes)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    running.add_argument("--n", type=int, default=10, help="questions of each set")
    running.add_argument("--out", type=Path, required=True)
    running.add_argument("--threads", type=int, default=2)
    sentences = commands.add_parser("clapnq")
    sentences.add_argument("--out", type=Path, required=True)
    sentences.add_argument("--answerable", type=int, default=40)
    sentences.add_argument("--unanswerable", type=int, default=30)
    sentences.add_argument("--threads", type=int, default=2)
    reporting = commands.add_parser("report")
    reporting.add_argument("answers", type=Path)
    reporting.add_argument("--json", type=Path, help="a file for the outcomes, without texts")
    for command in (running, reporting):
        command.add_argument("--like", type=Path, required=True, help="a run with the questions, such as linked_packed")
    given = parser.parse_args()
    if given.command == "run":
        run_peers(given.peers, given.like, given.n, given.out, given.threads)
    elif given.command == "clapnq":
        ask_clapnq(given.out, given.answerable, given.unanswerable, given.threads)
    else:
        report = collect_outcomes(given.answers, given.like)
        if given.json:
            given.json.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
        print(report.table())


if __name__ == "__main__":
    main()
