"""`beliefrag cache`: what is recorded, whether it still holds, and moving it elsewhere."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from beliefrag.runs.run_files import comparable_lines
from tests.cli.shell import Ran
from tests.support.bench_runs import BORROWED, write_dataset, write_script
from tests.support.http_server import ChatServer, Response, completion
from tests.support.messages import mentions

Command = Callable[..., Ran]


def played(beliefrag: Command, home: Path, *more: str) -> list[str]:
    if not (home / "north").exists():
        write_dataset(home, "north", 4)
    model = write_script(home)
    line = ["bench", "run", "--data", "north", "--methods", "static,iterative", "--model", model, "--out", "run", *more]
    assert beliefrag(*line).code == 0
    return line


def test_stats_count_replies_by_model(beliefrag: Command, home: Path) -> None:
    assert "no cache yet" in beliefrag("cache", "stats").out
    played(beliefrag, home, "--no-judge")
    rows = dict(line.split("\t") for line in beliefrag("cache", "stats").out.splitlines())
    assert int(rows["replies"]) > 4
    model = next(name for name in rows if name.startswith("scripted:"))
    assert rows[model] == rows["replies"]


def test_an_exported_cache_replays_the_run_elsewhere(
    beliefrag: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = played(beliefrag, home)
    assert "replies written to replies.jsonl" in beliefrag("cache", "export", "replies.jsonl").out
    assert beliefrag("cache", "export", "replies.jsonl").code == 2
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(home / "elsewhere"))
    count = len(Path("replies.jsonl").read_text().splitlines())
    assert mentions(beliefrag("cache", "import", "replies.jsonl").out, f"{count} replies added", "0 were", "0 differ")
    assert mentions(beliefrag("cache", "import", "replies.jsonl").out, "0 replies added", f"{count} were known")
    line[line.index("--out") + 1] = "again"
    ran = beliefrag(*line, "--replay")
    assert (ran.code, "0 keys are missing" in ran.err) == (0, True)
    assert comparable_lines(home / "again") == comparable_lines(home / "run")


def test_an_import_never_replaces_what_is_there(beliefrag: Command, home: Path) -> None:
    played(beliefrag, home)
    beliefrag("cache", "export", "replies.jsonl")
    lines = [json.loads(line) for line in Path("replies.jsonl").read_text().splitlines()]
    lines[0]["reply"]["text"] = "something else"
    del lines[0]["seal"]
    Path("other.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "1 differ" in beliefrag("cache", "import", "other.jsonl").out
    beliefrag("cache", "export", "after.jsonl")
    assert Path("after.jsonl").read_bytes() == Path("replies.jsonl").read_bytes()


@pytest.mark.parametrize("damage", ["not json", '{"key": "x"}', '{"key":"zz","model":"m","created":1,"reply":{}}'])
def test_a_damaged_file_imports_nothing(beliefrag: Command, home: Path, damage: str) -> None:
    played(beliefrag, home)
    beliefrag("cache", "export", "replies.jsonl")
    beliefrag("cache", "prune", "--older-than", "0", "--yes")
    text = Path("replies.jsonl").read_text()
    Path("replies.jsonl").write_text(text + damage + "\n")
    ran = beliefrag("cache", "import", "replies.jsonl")
    assert (ran.code, ran.out) == (2, "")
    assert f"Line {len(text.splitlines()) + 1} " in ran.err and "beliefrag cache export" in ran.err
    assert "replies\t0" in beliefrag("cache", "stats").out


def test_pruning_asks_and_deletes_only_what_is_old(beliefrag: Command, home: Path) -> None:
    assert beliefrag("cache", "prune", "--older-than", "1").code == 0
    played(beliefrag, home)
    assert beliefrag("cache", "prune", "--older-than", "1").out == "0 replies deleted\n"
    ran = beliefrag("cache", "prune", "--older-than", "0")
    assert (ran.code, "would be deleted" in ran.err) == (2, True)
    assert "replies\t0" not in beliefrag("cache", "stats").out
    beliefrag("cache", "prune", "--older-than", "0", "--yes")
    assert "replies\t0" in beliefrag("cache", "stats").out


def test_an_audit_finds_nothing_where_the_model_is_the_same(beliefrag: Command, home: Path) -> None:
    played(beliefrag, home)
    ran = beliefrag("cache", "audit", "run", "--data", "north")
    assert ran.code == 0, ran.err
    first = ran.out.splitlines()[0]
    assert first.startswith("0 of ")
    assert int(first.split()[2]) >= 8


def test_an_audit_counts_each_reply_that_diverges_once(beliefrag: Command, home: Path, chat_server: ChatServer) -> None:
    write_dataset(home, "north", 4)
    chat_server.play(completion("Larvik"))
    line = ["bench", "run", "--data", "north", "--methods", "no_rag", "--no-judge", "--model", "m"]
    assert beliefrag(*line, "--base-url", chat_server.url, *BORROWED, "--out", "run").code == 0
    asked = len(chat_server.requests)
    chat_server.play(
        lambda request: completion("Bergen" if "north1 born" in request.body["messages"][-1]["content"] else "Larvik")
    )
    audit = ("cache", "audit", "run", "--data", "north", "--base-url", chat_server.url)
    ran = beliefrag(*audit)
    assert mentions(ran.out.splitlines()[0], "1 of 4", "diverge")
    assert ran.out.splitlines()[-1] == "answer\t3\t0\t1\t0"
    assert len(chat_server.requests) == asked + 4
    assert beliefrag(*audit, "--n", "2").out.splitlines()[0].split(" replies")[0].endswith("of 2")
    # The cache still holds what it held.
    ran = beliefrag(*line, "--base-url", chat_server.url, *BORROWED, "--out", "again", "--replay")
    assert comparable_lines(home / "again") == comparable_lines(home / "run")


def test_an_audit_counts_other_probabilities_of_the_same_words_apart(
    beliefrag: Command, home: Path, chat_server: ChatServer
) -> None:
    write_dataset(home, "north", 3)

    def reply(probability: float) -> Response:
        top = [{"token": "Oslo", "logprob": math.log(probability)}]
        return completion("Oslo", logprobs={"content": [{**top[0], "top_logprobs": top}]})

    chat_server.play(reply(0.9))
    line = ["bench", "run", "--data", "north", "--methods", "uncertainty_gate", "--no-judge", "--model", "m"]
    assert beliefrag(*line, "--base-url", chat_server.url, *BORROWED, "--out", "run").code == 0
    moved = {"north0 born": 0.9004, "north1 born": 0.8}
    chat_server.play(
        lambda request: reply(
            next((p for asked, p in moved.items() if asked in request.body["messages"][-1]["content"]), 0.9)
        )
    )
    ran = beliefrag("cache", "audit", "run", "--data", "north", "--base-url", chat_server.url)
    assert mentions(ran.out, "0 of 3", "diverge", "1 more", "token probabilities")
    assert ran.out.splitlines()[-1] == "gate\t2\t1\t0\t0"


def test_replies_that_are_not_in_the_cache_do_not_use_up_the_number_to_compare(beliefrag: Command, home: Path) -> None:
    write_dataset(home, "north", 4)
    line = ("bench", "run", "--data", "north", "--methods", "no_rag", "--model", write_script(home), "--no-judge")
    assert beliefrag(*line, "--out", "run").code == 0
    beliefrag("cache", "export", "replies.jsonl")
    lines = Path("replies.jsonl").read_text().splitlines(keepends=True)
    # The first two questions are answered in other words than the rest.
    left = [each for each in lines if json.loads(each)["reply"]["text"] == "Oslo"]
    Path("left.jsonl").write_text("".join(left))
    beliefrag("cache", "prune", "--older-than", "0", "--yes")
    beliefrag("cache", "import", "left.jsonl")
    ran = beliefrag("cache", "audit", "run", "--data", "north", "--n", "2")
    assert mentions(ran.out, "0 of 2", "diverge", 0, "asked again", "2 are not")


def test_a_run_on_own_questions_is_audited_with_them(beliefrag: Command, home: Path) -> None:
    Path("notes").mkdir()
    Path("notes/fram.txt").write_text("The Fram was designed by Colin Archer.")
    Path("asked.csv").write_text("question,answers\nWho designed the Fram?,Colin Archer\n")
    own = ("--questions", "asked.csv", "--docs", "notes")
    model = write_script(home)
    assert beliefrag("bench", "run", *own, "--methods", "static", "--model", model, "--out", "run").code == 0
    ran = beliefrag("cache", "audit", "run", *own)
    assert ran.code == 0 and mentions(ran.out, "0 of 1", "diverge"), ran.err
    ran = beliefrag("cache", "audit", "run")
    assert ran.code == 2 and mentions(ran.err, "--data", "--questions", "--docs")


def test_an_audit_against_another_model_is_refused(beliefrag: Command, home: Path) -> None:
    played(beliefrag, home)
    other = write_script(home, {"purpose": "x", "reply": "y"}, name="other.jsonl")
    ran = beliefrag("cache", "audit", "run", "--data", "north", "--model", other)
    assert (ran.code, ran.out) == (1, "")
    assert "model scripted:" in ran.err


def test_repair_says_what_is_kept_and_what_was_lost(beliefrag: Command, home: Path) -> None:
    played(beliefrag, home, "--no-judge")
    store = home.parent / "cache" / "replies.sqlite"
    with closing(sqlite3.connect(store)) as db, db:
        (count,) = db.execute("SELECT count(*) FROM replies").fetchone()
        db.execute("UPDATE replies SET created = 1 WHERE rowid = 2")
    said = beliefrag("cache", "repair").out
    assert mentions(said, f"{count - 1} replies", "kept", "1 replies", "damaged")
    assert f"{count - 1} replies are whole" in beliefrag("cache", "repair").out
