"""Every command and every Python example in the documents is run, so that none of them can grow stale."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx2
import pytest

from beliefrag.cli import main
from beliefrag.settings import load_settings
from tests.support.http_server import ChatServer, completion

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
VERDICT = {"unhelpful_doc_ids": [], "support": 0.95, "conflict": 0.0, "gap": 0.0, "uncertainty": 0.0}
RESULTS = "docs/results/"
ADDRESS = "http://localhost:8000/v1"
SERVED = "http://localhost:8080"


def blocks(language: str) -> list[tuple[str, str]]:
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [
        (page.relative_to(ROOT).as_posix(), block)
        for page in PAGES
        for block in pattern.findall(page.read_text(encoding="utf-8"))
    ]


def commands() -> list[tuple[str, str]]:
    """Each command with its page; one that several pages have is there once. Those of results are tried otherwise."""
    found: dict[tuple[bool, str], tuple[str, str]] = {}
    for page, block in blocks("console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.setdefault((page.startswith(RESULTS), line), (page, line.removeprefix("$ ")))
    return list(found.values())


def furnish(folder: Path) -> tuple[Path, dict[str, str]]:
    """Make a working folder with documents and a scripted model; return the folder and the settings to use it with."""
    work = folder / "work"
    (work / "handbook").mkdir(parents=True)
    (work / "handbook" / "travel.md").write_text(
        "# Travel\n\nTravel above the limit is approved by the head of finance.\n", encoding="utf-8"
    )
    (work / "token.txt").write_text("a-token-for-the-documents\n", encoding="utf-8")
    script = folder / "script.jsonl"
    lines = [
        {"purpose": "verifier", "reply": VERDICT, "repeat": True},
        {"purpose": "answer", "reply": "the head of finance", "repeat": True},
        {"purpose": "write", "reply": "Travel above the limit is approved by the head of finance.", "repeat": True},
    ]
    script.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    shutil.copy(script, work / "replies.jsonl")
    (work / "asked.csv").write_text("question,answers\nWho approves travel?,the head of finance\n", encoding="utf-8")
    environment = {
        "HOME": str(folder),
        "BELIEFRAG_CACHE_DIR": str(folder / "cache"),
        "BELIEFRAG_MODEL": f"scripted:{script}",
        "BELIEFRAG_BORROW": "published",
        "BELIEFRAG_VERIFIER": "structured",
    }
    return work, environment


@pytest.fixture
def practice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with documents, and a scripted model in the place of the default one."""
    for name in [name for name in os.environ if name.startswith(("BELIEFRAG_", "XDG_"))]:
        monkeypatch.delenv(name)
    work, environment = furnish(tmp_path)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(work)
    return work


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one server for all examples that call one."""
    work, environment = furnish(tmp_path_factory.mktemp("served"))
    ambient = {name: value for name, value in os.environ.items() if not name.startswith(("BELIEFRAG_", "XDG_"))}
    with serving(work, "--docs", "handbook/", env=ambient | environment) as address:
        yield address


@contextlib.contextmanager
def serving(folder: Path, *arguments: str, kind: str = "http", env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the server of the documents, at a free port; return its address. It must end well when it is told to."""
    words = [sys.executable, "-m", "beliefrag", "serve", kind, *arguments, "--port", "0"]
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        try:
            yield json.loads(first)["address"].replace("0.0.0.0", "127.0.0.1")
        finally:
            process.terminate()
            said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, f"{first}{said}"


@contextlib.contextmanager
def app(folder: Path, *arguments: str) -> Iterator[httpx2.Client]:
    """Return the page of the documents, at a free port, with a client that has followed the printed address."""
    words = [sys.executable, "-m", "beliefrag", "app", *arguments, "--no-open", "--port", "0"]
    with subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().removeprefix("app: ").strip()
        try:
            with httpx2.Client(base_url=address.partition("/?")[0], follow_redirects=True) as client:
                client.get(address)
                yield client
        finally:
            process.terminate()
            said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, f"{address}{said}"


def test_there_are_commands_to_run() -> None:
    assert len(commands()) > 5


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_in_the_documents_works(
    practice: Path,
    served: str,
    chat_server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    page: str,
    command: str,
) -> None:
    chat_server.play(
        lambda request: completion(json.dumps(VERDICT) if "response_format" in request.body else "the head of finance")
    )
    if command.startswith("beliefrag serve http") or command.endswith(" --http"):
        kind, *arguments = shlex.split(command)[2:]
        with serving(practice, *arguments, kind=kind) as address:
            assert httpx2.get(f"{address}/readyz").json()["status"] == "ready"
        return
    if command.startswith("beliefrag app"):
        with app(practice, *shlex.split(command)[2:]) as client:
            assert client.get("/page/about").json()["passages"] == 1
        return
    if command.startswith("curl "):
        if shutil.which("curl") is None:
            pytest.skip("needs curl")
        words = shlex.split(command.replace(SERVED, served))
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
        assert ("changed" if "/v1/reload" in command else "the head of finance") in done.stdout
        return
    words = shlex.split(command.replace(ADDRESS, chat_server.url))
    set_before = dict(word.split("=", 1) for word in itertools.takewhile(re.compile("[A-Z_]+=").match, words))
    words = words[len(set_before) :]
    if page.startswith(RESULTS) and words[0] == "beliefrag":
        # As with other measurements below: what is tested is that the flags are understood.
        assert main([*words[1:], "--help"]) == 0
        return
    for name, value in set_before.items():
        monkeypatch.setenv(name, value)
    if "--index" in words:
        assert main(["index", "handbook/", "--out", "handbook.index"]) == 0
        capsys.readouterr()
    if "--on" in words:
        # Runs on a real cluster are tried in tests/test_on_ray.py; starting one takes long.
        words.append("--dry-run")
    if words[0] == "beliefrag" and words[1] != "serve":
        # In this process: what a process adds is tried by the tests of the command line.
        assert main(words[1:]) == 0, f"{page}: {command}\n{capsys.readouterr()}"
        out = capsys.readouterr().out
    elif words[:2] == ["python", "-m"] and words[2].startswith("benchmarks."):
        # Measurements take long: that they understand the flags is what is tested.
        folder = (ROOT / words[2].replace(".", "/")).is_dir()
        monkeypatch.setattr(sys, "argv", [*words[2:], "--help"])
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(f"{words[2]}.__main__" if folder else words[2]).main()
        assert not ended.value.code, f"{page}: {command}"
        out = capsys.readouterr().out
    else:
        out = in_shell(words, page)
    if "ask" in words:
        assert "the head of finance" in out


def in_shell(words: list[str], page: str) -> str:
    """Run a command in a process of its own and return what it printed. `make` only says what it would do."""
    runners: dict[str, Callable[[list[str]], list[str]]] = {
        # A dry run: `make test` would run this test again. What it would run is run by CI and by other tests.
        "make": lambda rest: ["make", "--dry-run", "--directory", str(ROOT), *rest],
        "beliefrag": lambda rest: [sys.executable, "-m", "beliefrag", *rest],
        "python": lambda rest: [sys.executable, *rest, "--help"],
    }
    line = runners[words[0]](words[1:])
    done = subprocess.run(line, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{page}: {words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize(("page", "code"), blocks("python"))
def test_a_python_example_in_the_documents_works(
    practice: Path, served: str, capfd: pytest.CaptureFixture[str], page: str, code: str
) -> None:
    code = code.replace(SERVED, served)
    if ".register(" in code or "register_format(" in code:
        # What it registers must not be there for other tests.
        done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{page}\n{done.stderr}"
        out = done.stdout
    else:
        # In this process, with names of its own: to load the libraries of others again takes longest of all.
        capfd.readouterr()
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
        out = capfd.readouterr().out
    if "rag.ask" in code or "openai" in code:
        assert "the head of finance" in out


@pytest.mark.parametrize(("page", "text"), blocks("toml"))
def test_a_settings_example_in_the_documents_works(
    practice: Path, monkeypatch: pytest.MonkeyPatch, page: str, text: str
) -> None:
    monkeypatch.delenv("BELIEFRAG_MODEL")
    Path("beliefrag.toml").write_text(text, encoding="utf-8")
    assert {source for _, _, source in load_settings().rows()} >= {"beliefrag.toml"}


def test_links_between_documents_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
