"""`beliefrag.bench` from Python: typed in, typed out, nothing printed, ended early on request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from beliefrag import bench
from beliefrag.errors import SettingsError
from beliefrag.methods import METHODS
from beliefrag.runs.record import RunRecord
from beliefrag.runs.run_errors import RunChanged
from beliefrag.settings import Settings
from tests.support.bench_runs import write_dataset, write_script


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("BELIEFRAG_CACHE_DIR", str(tmp_path / "cache"))
    return Settings(model=write_script(tmp_path), verifier="structured", borrow="published", cache=False)


def spec(tmp_path: Path, *methods: str, questions: int = 3) -> bench.RunSpec:
    data = tmp_path / "north"
    return bench.RunSpec(
        (data if data.exists() else write_dataset(tmp_path, "north", questions),), methods or ("static",)
    )


def test_a_run_gives_its_record_its_episodes_its_tally_and_its_numbers(
    tmp_path: Path, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[bench.RunProgress] = []
    run = bench.run(spec(tmp_path, "static", "no_rag"), out=tmp_path / "run", settings=settings, progress=seen.append)
    assert run.record == RunRecord.read(tmp_path / "run")
    assert (run.tally.finished, run.tally.failed) == (6, 0)
    assert [(each.done, each.episode is None) for each in seen] == [(k, k == 0) for k in range(7)]
    assert {episode.key for episode in run.episodes()} == {summary.key for summary in run.summaries()}
    assert run.summary().complete
    assert capfd.readouterr() == ("", "")


def test_a_preview_writes_nothing_and_tells_the_same_plan(tmp_path: Path, settings: Settings) -> None:
    found = bench.preview(spec(tmp_path), out=tmp_path / "run", settings=settings)
    assert found.plan.left == found.plan.total == 3
    assert found.plan.estimate.calls > 0
    assert "episodes: 3" in str(found)
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_interrupted_goes_on_with_the_same_call(tmp_path: Path, settings: Settings) -> None:
    wanted = spec(tmp_path, "static", questions=6)

    def interrupt(progress: bench.RunProgress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.run(wanted, out=tmp_path / "run", settings=settings, concurrency=1, progress=interrupt)
    second = bench.run(wanted, out=tmp_path / "run", settings=settings)
    assert second.plan is not None
    assert second.plan.done in (2, 3)
    assert second.plan.done + second.tally.finished == 6


def test_a_report_and_a_comparison_are_tables_that_a_notebook_shows(tmp_path: Path, settings: Settings) -> None:
    bench.run(spec(tmp_path, "static", "no_rag"), out=tmp_path / "run", settings=settings)
    report = bench.report(tmp_path / "run")
    assert [row[0] for row in report.tables[0].texts] == ["north", "north"]
    assert "<table>" in report._repr_html_()
    assert report.tables[0].to_text() in str(report)
    assert not report.files and not (tmp_path / "run" / "report").exists()
    assert bench.report(tmp_path / "run", out=tmp_path / "report").files
    compared = bench.compare(tmp_path / "run", "static", "no_rag")
    assert [each.dataset for each in compared.found] == ["north"]
    assert compared.warnings == ()
    assert "<table>" in compared._repr_html_()
    assert compared.tables[0].to_text() in str(compared)


async def test_a_notebook_with_an_event_loop_of_its_own_can_run_a_benchmark(tmp_path: Path, settings: Settings) -> None:
    assert asyncio.get_running_loop() is not None
    assert bench.run(spec(tmp_path), out=tmp_path / "run", settings=settings).tally.finished == 3
    prepared = bench.prepare_run(spec(tmp_path, "no_rag"), out=tmp_path / "run", settings=settings)
    assert bench.carry_out(prepared).tally.finished == 3


def test_the_options_of_a_method_are_recorded_and_must_stay(tmp_path: Path, settings: Settings) -> None:
    chosen = bench.choose_methods("static,adaptive_k:depth=7")
    assert chosen == ("static", "adaptive_k:depth=7")
    run = bench.run(spec(tmp_path, *chosen), out=tmp_path / "run", settings=settings)
    assert run.record.methods == ("static", "adaptive_k")
    assert run.record.method_options == {"adaptive_k": "depth=7"}
    assert run.record.methods_with_options == chosen
    assert {summary.key.method for summary in run.summaries()} == {"static", "adaptive_k"}
    with pytest.raises(RunChanged, match=r"adaptive_k depth=7.*none"):
        bench.run(spec(tmp_path, "adaptive_k"), out=tmp_path / "run", settings=settings)
    with pytest.raises(SettingsError, match="named twice"):
        bench.choose_methods("adaptive_k:depth=7,adaptive_k:depth=8")


def test_a_method_whose_cost_nobody_knows_is_previewed_as_unknown(
    tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(METHODS, "_extensions", {"static": replace(METHODS["static"], cost=None)})
    found = bench.preview(spec(tmp_path), out=tmp_path / "run", settings=settings)
    assert found.plan.estimate.unknown == ("static",)
    assert any(line.startswith("unknown") and METHODS.title("static") in line for line in found.lines)
