from __future__ import annotations

import gc
import logging
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.http_server import ChatServer

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer
    from tests.support.ray_cluster import RayNodes

# How fast a machine is, or what else runs on it, is no property of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# A shell starts what runs in its background with Ctrl-C ignored, and all processes that tests start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Most scripts have no line for the call that writes an answer in sentences; tests of that call ask for it.
os.environ["BELIEFRAG_ANSWER_STYLE"] = "short"

SLOWEST = (
    "test_on_ray.py",
    "retrieval/engines/test_every_engine.py",
    "cli/test_pages.py",
    "cli/test_study_command.py",
    "test_docs.py",
    "models/test_embedded.py",
    "cli/test_bench_errors.py",
    "cli/test_interruption.py",
    "web/test_mcp_stdio.py",
    "cli/test_serve_command.py",
    "test_demo_with_weights.py",
    "web/view/test_browser.py",
    "web/page/test_page_browser.py",
    "engine/test_reply_readers.py",
    "retrieval/test_index_kill.py",
    "cli/test_study_imperfect.py",
    "cli/test_bench_report.py",
    "methods/test_every_method_keeps_within_budget.py",
    "cli/test_bench_command.py",
    "benchmarks/test_soak.py",
    "cli/test_calibrate_command.py",
    "calibration/test_fit.py",
    "retrieval/engines/test_postgres_faults.py",
    "examples/test_examples.py",
    "web/test_load.py",
    "retrieval/engines/test_filling.py",
    "test_packaging.py",
    "test_docs_site.py",
    "cli/test_tune_command.py",
    "cli/test_ask_page.py",
    "retrieval/engines/test_linked_on_engines.py",
    "cli/test_ask_prompt.py",
    "studies/test_belief.py",
    "retrieval/test_linked_kill.py",
    "examples/test_notebook.py",
)
"""Files that take long, the longest first."""
_MOST_PROCESSES = 8
_BYTES_OF_A_PROCESS = 3 * 1024**3
"""What a process of the tests takes at its worst, with the servers and clusters that it starts."""


@pytest.hookimpl(optionalhook=True)  # the other Pythons of .ci/try-other-pythons have no xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return two processes to a core, because half of a test's time is waiting, where there is memory for them."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(_MOST_PROCESSES, 2 * (os.cpu_count() or 1), memory // _BYTES_OF_A_PROCESS))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the slowest files first, and then those with most tests: a long file that begins last is waited for."""
    if not hasattr(config, "workerinput"):
        return  # one process has no use for it
    places = {Path(__file__).parent / name: place for place, name in enumerate(SLOWEST)}
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (places.get(item.path, len(places)), -sizes[item.path]))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what the files of tests hold from being looked at again by each collection of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_ambient_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, endpoints and proxies of the developer's machine are not part of any test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module", autouse=True)
def _same_settings_for_the_next_file() -> Iterator[None]:
    """Checks that a file of tests leaves the settings, the current folder and --debug as it found them."""
    before = _settings_in_force()
    yield
    assert _settings_in_force() == before


def _settings_in_force() -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if name.startswith(("BELIEFRAG_", "XDG_", "HOME"))}
    is_debugged = logging.getLogger("beliefrag").level == logging.DEBUG
    return {**ours, "current folder": str(Path.cwd()), "debug": str(is_debugged)}


@pytest.fixture
def chat_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    """A chat server on loopback that plays what a test tells it to."""
    if "BELIEFRAG_CACHE_DIR" not in os.environ:
        # What is learned about it must not be kept for a later server at the same port.
        monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    server = ChatServer()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that all tests share; each makes a database of its own, and starts it again after a kill."""
    from tests.support.postgres import run_postgres

    with run_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """A Ray cluster of two nodes on this machine, which the tests of a module share."""
    from tests.support.ray_cluster import run_ray

    with run_ray() as cluster:
        yield cluster
