"""What tests of the viewer need: hostile material, and a client that knows the key of a server."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx2

from beliefrag.web.view import ViewServer
from tests.support.bench_runs import write_dataset

SCRIPT = "<script>window.hacked = 1</script>"
HOSTILE = (
    f"{SCRIPT}<img src=x onerror='window.hacked = 2'></script><!-- "
    "[click](javascript:window.hacked=3) javascript:window.hacked=4 \u202egnp.exe\u202c {{7*7}} &lt;b&gt;"
)
"""Text that would act if anything took it for markup."""


def hostile_dataset(folder: Path, name: str) -> Path:
    """Return a dataset whose passages, titles and a question id are hostile."""
    home = write_dataset(folder, name)
    corpus = home / "corpus.jsonl"
    passages = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    passages[0] |= {"title": f"Ship {name}0 {SCRIPT}", "text": f"Ship {name}0 {HOSTILE}"}
    corpus.write_text("".join(json.dumps(each) + "\n" for each in passages), encoding="utf-8")
    questions = home / "questions.jsonl"
    asked = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    asked[3]["id"] = "../../etc/passwd"
    questions.write_text("".join(json.dumps(each) + "\n" for each in asked), encoding="utf-8")
    return home


@contextlib.contextmanager
def client(server: ViewServer) -> Iterator[httpx2.Client]:
    """Return a client that has followed the printed address, and so has the key."""
    base, _, key = server.key.address.partition("/?")
    with httpx2.Client(base_url=base, trust_env=False, timeout=60) as known:
        known.get(f"/?{key}")
        yield known
