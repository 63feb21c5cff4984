"""Runs and indexing on a real Ray cluster, whose workers, nodes and driver are killed on the way."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from beliefrag import bench
from beliefrag.bench.benchmark import RunProgress
from beliefrag.bench.ray_player import _check_record, _check_shared_cache
from beliefrag.errors import MissingExtra, SettingsError
from beliefrag.ray_cluster import ClusterNode, join_cluster, open_ray_map
from beliefrag.retrieval import Bm25Index
from beliefrag.retrieval.indexing import IndexReport, index_paths
from beliefrag.retrieval.linked.build import build_graph
from beliefrag.retrieval.linked.graph import Arrays
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_errors import RunError
from beliefrag.runs.run_files import comparable_lines, read_lines
from beliefrag.settings import Settings
from benchmarks.harness.material import write_dataset
from benchmarks.harness.stub import recorded, stub
from tests.support.faults import at_random_moments
from tests.support.ray_cluster import RayNodes, find_workers, kill_process

pytestmark = pytest.mark.filterwarnings("ignore")

METHODS = ("static", "iterative", "crag")
QUESTIONS = 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data"), QUESTIONS, 60)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings_for(url: str, **more: object) -> Settings:
    return Settings.model_validate({"model": "stub", "base_url": url, "borrow": "published", "concurrency": 6, **more})


def spec_of(data: Path) -> bench.RunSpec:
    return bench.RunSpec(data=(data,), methods=METHODS, judge=False)


def play_alone(home: Path, data: Path) -> list[str]:
    """Return the lines of the same run in one process, with a cache of its own."""
    before = os.environ["BELIEFRAG_CACHE_DIR"]
    os.environ["BELIEFRAG_CACHE_DIR"] = str(home / "other-cache")
    try:
        with stub(0) as url:
            bench.run(spec_of(data), out=home / "alone", settings=settings_for(url))
    finally:
        os.environ["BELIEFRAG_CACHE_DIR"] = before
    return comparable_lines(home / "alone")


def lines_per_episode(run: Path) -> Counter[object]:
    return Counter(line.summary.key for line in read_lines(run))


def test_a_run_on_ray_leaves_the_bytes_of_a_run_in_one_process_and_can_go_on_without_it(
    nodes: RayNodes, home: Path, data: Path
) -> None:
    # Replies take a while, so that the run is not over before it is interrupted.
    with stub(0.1, record=True) as url:
        settings = settings_for(url)

        def interrupt(progress: RunProgress) -> None:
            if progress.done == 10:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bench.run(spec_of(data), out=home / "run", settings=settings, on="ray", progress=interrupt)
        done_before = len(lines_per_episode(home / "run"))
        assert 10 <= done_before < len(METHODS) * QUESTIONS
        second = bench.run(spec_of(data), out=home / "run", settings=settings, on="ray")
        assert second.plan is not None
        assert (second.plan.done, second.tally.failed) == (done_before, 0)
        asked = [json.dumps(body, sort_keys=True) for body in recorded(url)]
        # A replay on the workers finds every reply that they have shared.
        replayed = bench.run(replace(spec_of(data), replay=True), out=home / "replay", settings=settings, on="ray")
    expected = play_alone(home, data)
    assert comparable_lines(home / "run") == expected
    assert comparable_lines(home / "replay") == expected
    assert (replayed.missing_replies, len(asked)) == (0, len(set(asked)))
    assert set(lines_per_episode(home / "run").values()) == {1}
    record = (home / "run" / "run.json").read_text()
    assert "ray" not in record.lower().replace("array", "")
    here, alone = RunRecord.read(home / "run"), RunRecord.read(home / "alone")
    # The two servers have ports of their own, which are part of the model's identity.
    assert here.model_copy(update={"made": alone.made, "model": alone.model}) == alone


def test_a_killed_node_loses_and_doubles_nothing(nodes: RayNodes, home: Path, data: Path) -> None:
    def kill_node() -> bool:
        # Each node has a worker by then.
        is_at_work = len(find_workers("EpisodeWorker")) > 1
        if is_at_work:
            nodes.kill_second_node()
        return is_at_work

    with stub(0.3) as url, at_random_moments(kill_node, 1, within=2.0) as kills:
        run = bench.run(spec_of(data), out=home / "run", settings=settings_for(url), on="ray")
    nodes.replace_second_node()
    assert kills
    assert (run.tally.failed, run.tally.finished) == (0, len(METHODS) * QUESTIONS)
    assert comparable_lines(home / "run") == play_alone(home, data)
    assert set(lines_per_episode(home / "run").values()) == {1}


def test_a_killed_driver_loses_nothing_and_the_same_command_goes_on(nodes: RayNodes, home: Path, data: Path) -> None:
    with stub(0.2) as url:
        command = [sys.executable, "-m", "beliefrag", "bench", "run", "--data", str(data), "--methods"]
        command += [",".join(METHODS), "--model", "stub", "--base-url", url, "--set", "borrow=published", "--yes"]
        command += ["--no-judge", "--set", "concurrency=6", "--out", str(home / "run"), "--on", f"ray:{nodes.address}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as driver:
            give_up = time.monotonic() + 120
            while len(lines_per_episode(home / "run")) < 4 and time.monotonic() < give_up:
                time.sleep(0.05)
            time.sleep(random.uniform(0, 0.5))
            kill_process(driver.pid)
            assert driver.stdout is not None
            assert driver.stdout.read() == b""
        before = len(lines_per_episode(home / "run"))
        assert 4 <= before < len(METHODS) * QUESTIONS
        run = bench.run(spec_of(data), out=home / "run", settings=settings_for(url), on="ray")
    assert run.tally.finished == len(METHODS) * QUESTIONS - before
    assert comparable_lines(home / "run") == play_alone(home, data)
    assert set(lines_per_episode(home / "run").values()) == {1}


def test_workers_on_other_machines_cannot_share_a_file_of_this_one() -> None:
    elsewhere = [ClusterNode("a", "far-away", 4)]
    with pytest.raises(SettingsError, match="far-away"):
        _check_shared_cache(Settings(), bench.RunSpec(), elsewhere)
    _check_shared_cache(Settings(cache=False), bench.RunSpec(), elsewhere)
    _check_shared_cache(Settings(cache=False), bench.RunSpec(), elsewhere)


def test_a_worker_with_other_versions_or_another_corpus_is_refused(home: Path, data: Path) -> None:
    play_alone(home, data)
    here = RunRecord.read(home / "alone")
    _check_record(here, here, "host-1")
    with pytest.raises(RunError, match=r"host-1 .*numpy .*there 0\.1"):
        _check_record(here, here.model_copy(update={"versions": {**here.versions, "numpy": "0.1"}}), "host-1")
    other = {name: each.model_copy(update={"fingerprint": "other"}) for name, each in here.datasets.items()}
    with pytest.raises(RunError, match="corpus of harbours"):
        _check_record(here, here.model_copy(update={"datasets": other}), "host-1")


@pytest.mark.parametrize("place", ["spark", "ray:", "rays", ""])
def test_another_place_is_refused_with_the_known_ones(place: str) -> None:
    with pytest.raises(SettingsError, match="ray:ADDRESS"), join_cluster(place):
        pass


def test_a_missing_ray_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"beliefrag\[ray\]"), join_cluster("ray"):
        pass


def write_corpus(folder: Path, rows: int = 1300) -> Path:
    folder.mkdir()
    for number in range(70):
        (folder / f"note-{number}.md").write_text(
            f"# Harbour {number}\n\nCaptain Anna Lind of Port {number} met Olaf Berg there. " * 3
        )
    with (folder / "rows.jsonl").open("w") as file:
        for number in range(rows):
            row = {"id": f"r{number}", "title": f"Row {number}", "text": f"Port {number % 90} lies at mile {number}."}
            file.write(json.dumps(row) + "\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing more")
    (folder / "empty.txt").write_text("")
    return folder


def without_time(report: IndexReport) -> IndexReport:
    return replace(report, seconds=0.0)


def kill_worker() -> bool:
    workers = find_workers("TaskWorker")
    if workers:
        kill_process(random.choice(workers))
    return bool(workers)


def has_graph(index: Path) -> bool:
    return len(list(index.glob("names-*"))) == 1


def test_an_index_made_on_ray_is_the_one_that_a_single_process_makes(nodes: RayNodes, tmp_path: Path) -> None:
    docs = write_corpus(tmp_path / "docs")
    alone = index_paths(docs, tmp_path / "alone")
    spread = index_paths(docs, tmp_path / "spread", on="ray")
    assert without_time(spread) == without_time(alone)
    assert len(spread.skipped) == 2
    assert has_graph(tmp_path / "spread")
    one, other = Bm25Index.open(tmp_path / "spread"), Bm25Index.open(tmp_path / "alone")
    assert {passage.id: passage for passage in one.first(len(one))} == {
        passage.id: passage for passage in other.first(len(other))
    }
    # The engine stores passages in an order of its own; of the same order the same graph is made.
    graphs = [Arrays(), Arrays()]
    with open_ray_map("ray") as map_items:
        headers = [build_graph(other.read_rows(), graphs[0]), build_graph(other.read_rows(), graphs[1], map_items)]
    assert headers[0] == headers[1]
    assert len(graphs[0].read("home_passage", np.int32)) > 10
    for name in ("words", "home_passage", "named_passage", "named_name", "shared_passage"):
        assert (graphs[0].read(name, np.int32) == graphs[1].read(name, np.int32)).all()

    (docs / "note-3.md").write_text("# Harbour 3\n\nIt burned down.")
    (docs / "note-4.md").unlink()
    (docs / "late.txt").write_text("A file that came later.")
    assert without_time(index_paths(docs, tmp_path / "spread", on="ray")) == without_time(
        index_paths(docs, tmp_path / "alone")
    )
    assert has_graph(tmp_path / "spread")


def test_workers_that_are_killed_while_they_read_change_nothing(nodes: RayNodes, tmp_path: Path) -> None:
    docs = write_corpus(tmp_path / "docs", rows=6_000)
    with at_random_moments(kill_worker, 3, within=1.0) as kills:
        spread = index_paths(docs, tmp_path / "spread", on="ray")
    assert kills
    alone = index_paths(docs, tmp_path / "alone")
    assert without_time(spread) == without_time(alone)
    assert has_graph(tmp_path / "spread")


def test_a_killed_driver_leaves_an_index_that_the_same_command_completes(nodes: RayNodes, tmp_path: Path) -> None:
    docs = write_corpus(tmp_path / "docs", rows=6_000)
    command = [sys.executable, "-m", "beliefrag", "index", str(docs), "--out", str(tmp_path / "spread")]
    with subprocess.Popen([*command, "--on", f"ray:{nodes.address}"], stderr=subprocess.DEVNULL) as driver:
        give_up = time.monotonic() + 120
        while not (tmp_path / "spread").exists() and time.monotonic() < give_up:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 3))
        kill_process(driver.pid)
    index_paths(docs, tmp_path / "spread", on="ray")
    alone = index_paths(docs, tmp_path / "alone")
    assert Bm25Index.open(tmp_path / "spread").fingerprint == alone.fingerprint
    assert has_graph(tmp_path / "spread")
