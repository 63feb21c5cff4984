"""What `beliefrag serve mcp` refuses before it serves anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import in_process
from tests.support.messages import mentions


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("BELIEFRAG_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)


def test_where_others_can_reach_it_a_token_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    ran = in_process(capsys, "serve", "mcp", "--http", "--host", "0.0.0.0", "--port", "0", "--docs", ".")
    assert (ran.code, ran.out) == (2, "")
    assert "0.0.0.0" in ran.err and "--token-file" in ran.err


@pytest.mark.parametrize("option", ["--host", "--port", "--token-file", "--allowed-host"])
def test_what_is_for_http_is_refused_without_it(capsys: pytest.CaptureFixture[str], option: str) -> None:
    ran = in_process(capsys, "serve", "mcp", option, "1", "--docs", ".")
    assert (ran.code, ran.out) == (2, "")
    assert "--http" in ran.err
    assert option in ran.err


def test_without_the_extra_it_says_what_to_install_and_other_commands_work() -> None:
    code = "import sys; sys.modules['mcp'] = None; from beliefrag.cli import main; sys.exit(main(sys.argv[1:]))"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=120
        )

    done = run("serve", "mcp", "--docs", ".")
    assert (done.returncode, done.stdout) == (2, "")
    assert mentions(done.stderr, "error: The MCP server", "library", "pip install 'beliefrag[mcp]'")
    assert done.stderr.endswith("pip install 'beliefrag[mcp]'\n")
    assert run("serve", "mcp", "--help").returncode == 0
