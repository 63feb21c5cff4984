"""`beliefrag data`: import, list, show, check, get."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from beliefrag.bench.datasets import DATASET_FORMATS, find_format, load_dataset
from tests.bench.published import HOTPOT, MUSIQUE, POPQA, lines
from tests.cli.shell import Ran
from tests.support.messages import mentions

Command = Callable[..., Ran]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """A hub on loopback that has the files that a test puts there."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            content = files.get(self.path.partition("?")[0])
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            # The two headers by which the hub's own client recognises a hub.
            self.send_header("X-Repo-Commit", "0" * 40)
            self.send_header("ETag", '"an-etag"')
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(files.get(self.path.partition("?")[0]) or b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield files
    server.shutdown()
    thread.join()
    server.server_close()


def test_import_writes_a_dataset_and_prints_its_card(beliefrag: Command, home: Path) -> None:
    file = lines(home / "hotpot_dev_distractor_v1.json", HOTPOT)
    ran = beliefrag("data", "import", "hotpotqa", file, "--out", home / "data" / "hotpotqa")
    assert (ran.code, ran.err) == (0, "")
    assert "questions    1\n" in ran.out and "licence      CC BY-SA 4.0\n" in ran.out
    dataset = load_dataset(home / "data" / "hotpotqa")
    assert (len(dataset.questions), len(dataset.passages)) == (1, 3)
    assert dataset.card.outputs[0].sha256 in ran.out


def test_a_broken_line_stops_an_import(beliefrag: Command, home: Path) -> None:
    file = lines(home / "dev.jsonl", MUSIQUE)
    file.write_text(file.read_text() + "{broken\n")
    ran = beliefrag("data", "import", "musique", file, "--out", home / "out")
    assert (ran.code, ran.out) == (1, "")
    assert mentions(ran.err, "dev.jsonl line 2", "JSON")
    assert not (home / "out").exists()


def test_list_names_the_formats_or_the_datasets_of_a_folder(beliefrag: Command, home: Path) -> None:
    ran = beliefrag("data", "list")
    assert [line.split("\t")[0] for line in ran.out.splitlines()[1:]] == list(DATASET_FORMATS)
    beliefrag("data", "import", "musique", lines(home / "dev.jsonl", MUSIQUE), "--out", home / "data" / "musique")
    (home / "data" / "other").mkdir()
    rows = [line.split("\t") for line in beliefrag("data", "list", home / "data").out.splitlines()]
    assert rows[1:] == [["musique", "1", "2", "dev 1", "CC BY 4.0"]]


def test_get_downloads_once_and_imports(beliefrag: Command, home: Path, hub: dict[str, bytes]) -> None:
    source = find_format("popqa").hub
    assert source
    hub[f"/datasets/akariasai/PopQA/resolve/{source.revision}/test.tsv"] = POPQA.encode()
    ran = beliefrag("data", "import", "popqa", "--out", home / "popqa")
    assert ran.code == 0 and "Getting test.tsv of akariasai/PopQA" in ran.err
    assert load_dataset(home / "popqa").questions[0].id == "4222362"
    hub.clear()
    again = beliefrag("data", "import", "popqa", "--out", home / "again")
    assert (again.code, again.err) == (0, "")


def test_get_takes_the_files_of_a_listing_but_no_path_out_of_the_folder(
    beliefrag: Command, home: Path, hub: dict[str, bytes]
) -> None:
    base = "/datasets/megagonlabs/holobench/resolve/main"
    names = ["query/wine_1.csv", "wine_1/wine.csv", "../evil.csv", "/etc/evil.csv", "README.md"]
    listing = json.dumps([{"type": "file", "path": name, "size": 1, "oid": "0"} for name in names]).encode()
    hub["/api/datasets/megagonlabs/holobench/tree/main"] = listing
    hub[f"{base}/query/wine_1.csv"] = b"question,query,db_id\nWhich?,SELECT Name FROM wine,wine_1\n"
    hub[f"{base}/wine_1/wine.csv"] = b'verbalized_text,table_row\nA wine.,"{""Name"": ""Giana""}"\n'
    ran = beliefrag("data", "import", "holobench", "--out", home / "holobench")
    assert ran.code == 0, ran.err
    assert load_dataset(home / "holobench").questions[0].gold.answers == ("Giana",)
    assert "evil" not in ran.err and not list(home.parent.rglob("evil.csv"))


def test_hostile_text_in_a_card_cannot_reach_the_terminal(beliefrag: Command, home: Path) -> None:
    lines(
        home / "questions.jsonl", {"id": "a", "question": "q", "answers": ["x"], "supporting": None, "split": "\x1b[2J"}
    )
    lines(home / "corpus.jsonl")
    ran = beliefrag("data", "list", home)
    assert ran.code == 0 and "\x1b" not in ran.out
