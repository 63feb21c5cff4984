"""The two files of a run: what a kill, a full disk or a crowd of episodes can do to them."""

from __future__ import annotations

import asyncio
import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from beliefrag.policy import PRIOR
from beliefrag.record import Episode, EpisodeKey, Outcome, Step
from beliefrag.runs.comparability import resume_record
from beliefrag.runs.record import DatasetRecord, RunRecord
from beliefrag.runs.run_errors import RunChanged, RunError
from beliefrag.runs.run_files import EpisodeLog, comparable_lines, episode_line, read_episodes, read_summaries
from beliefrag.types import Action, Question, Usage

METRICS: dict[str, float | None] = {
    "exact_match": 1.0,
    "f1": 1.0,
    "cover": 1.0,
    "evidence_recall": None,
    "answer_row_recall": None,
    "judge": None,
    "rounds": 1,
    "actions": 2,
}


def episode(question_id: str, outcome: Outcome = Outcome.ANSWERED, **more: Any) -> Episode:
    fields = {
        "method": "static",
        "dataset": "north",
        "question": Question("", question_id),
        "outcome": outcome,
        "answer": "Larvik é\n|\u2028",
        "metrics": METRICS,
        "usage": Usage(calls=1, tokens_in=5, tokens_out=2, seconds=0.5, searches=1),
        "steps": (Step(number=0, action=Action.RETRIEVE, reason="retrieve:once", belief=PRIOR),),
    }
    return Episode.model_validate({**fields, **more})


def run_record(**changes: Any) -> RunRecord:
    dataset = DatasetRecord(fingerprint="f", gold="g", passages=3, question_ids=("q1", "q2"))
    setup = {"verifier": "structured", "retriever": "bm25", "thresholds": {"answer": 0.5}}
    setup |= {name: changes.pop(name) for name in ("thresholds", "pack") if name in changes}
    methods = changes.get("methods", ("static",))
    return RunRecord(
        **{
            "made": "now",
            "versions": {},
            "model": "m",
            "setups": dict.fromkeys(methods, setup),
            "prompts": {"answer": "a1"},
            "budget": {"top_k": 5},
            "judge": None,
            "seed": 0,
            "methods": methods,
            "datasets": {"north": dataset},
            "settings": {},
            **changes,
        }
    )


def test_a_line_torn_at_any_byte_is_dropped_and_nothing_else(tmp_path: Path) -> None:
    whole = episode_line(episode("q1")) + episode_line(episode("q2"))
    first = episode_line(episode("q1"))
    for cut in range(len(first), len(whole)):
        (tmp_path / "episodes.jsonl").write_bytes(whole[:cut])
        assert [key.question_id for key in read_summaries(tmp_path)] == ["q1"], "read while it is being written"
        with EpisodeLog(tmp_path) as log:
            assert [key.question_id for key in log.summaries] == ["q1"]
        assert (tmp_path / "episodes.jsonl").read_bytes() == first


@pytest.mark.parametrize("size", [10, 65_535, 65_536, 65_537, 200_000])
def test_a_long_torn_line_is_dropped_too(tmp_path: Path, size: int) -> None:
    first = episode_line(episode("q1"))
    for kept in (b"", first):
        (tmp_path / "episodes.jsonl").write_bytes(kept + b"x" * size)
        with EpisodeLog(tmp_path):
            pass
        assert (tmp_path / "episodes.jsonl").read_bytes() == kept


async def test_a_crowd_of_episodes_makes_one_whole_line_each(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path) as log:
        await asyncio.gather(*(log.append(episode(f"q{k}", answer="x" * 5000)) for k in range(300)))
    lines = (tmp_path / "episodes.jsonl").read_bytes().splitlines()
    assert sorted(json.loads(line)["question"]["id"] for line in lines) == sorted(f"q{k}" for k in range(300))


@pytest.mark.parametrize(("synced", "syncs"), [(True, [1, 2, 2]), (False, [0, 0, 1])])
async def test_each_line_is_synced_and_those_of_a_replay_together_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synced: bool, syncs: list[int]
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(os, "fsync", seen.append)
    counts = []
    with EpisodeLog(tmp_path, synced=synced) as log:
        for name in ("q1", "q2"):
            await log.append(episode(name))
            counts.append(len(seen))
            assert name in {key.question_id for key in read_summaries(tmp_path)}
    assert [*counts, len(seen)] == syncs


async def test_what_was_waiting_when_the_run_was_cancelled_is_written(tmp_path: Path) -> None:
    with EpisodeLog(tmp_path) as log:
        tasks = [asyncio.create_task(log.append(episode(f"q{k}"))) for k in range(20)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # As asyncio.run does before it returns.
        await asyncio.get_running_loop().shutdown_default_executor()
    assert len(read_summaries(tmp_path)) == 20


async def test_a_disk_that_takes_half_a_line_is_an_error_and_leaves_whole_lines(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    first = episode_line(episode("q1"))
    with EpisodeLog(tmp_path) as log:
        await log.append(episode("q1"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(first) + 50, hard))
        try:
            with pytest.raises(RunError, match="File too large") as caught:
                await log.append(episode("q2"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "same command again" in caught.value.remedy
        assert (tmp_path / "episodes.jsonl").read_bytes() == first
        await log.append(episode("q3"))
    assert [key.question_id for key in read_summaries(tmp_path)] == ["q1", "q3"]


def test_the_later_line_wins(tmp_path: Path) -> None:
    failed = episode("q1", Outcome.FAILED, error={"cause": "TransportError"}, metrics={})
    (tmp_path / "episodes.jsonl").write_bytes(episode_line(failed) + episode_line(episode("q1")))
    (found,) = read_summaries(tmp_path).values()
    assert (found.outcome, found.cause) == ("answered", "")
    assert len(comparable_lines(tmp_path)) == 1
    with EpisodeLog(tmp_path) as log:
        assert log.episode(EpisodeKey("north", "static", "q1", 0)) == episode("q1")


DAMAGE: list[tuple[str, Any, str]] = [
    ("outcome", "weird", "outcome"),
    ("outcome", "failed", "error if and only if it failed"),
    ("metrics", {}, "without a score"),
    ("metrics.f1", "0.5", "metrics.f1"),
    ("metrics.f1", 7.5, "metric f1 is 7.5"),
    ("metrics.f1", float("nan"), "metrics.f1"),
    ("metrics.f1", None, "without a score"),
    ("metrics.actions", -1, "metric actions is -1"),
    ("usage.calls", -1, "usage.calls is -1"),
    ("usage.by_purpose", {"answer": {"tokens_in": 1e999}}, "tokens_in"),
]
STEP_DAMAGE: list[tuple[str, Any, str]] = [
    ("answerability", 1.5, "answerability"),
    ("citations", [{"passage_id": "p"}], "citations.0"),
    ("steps.0.action", "DANCE", "steps.0.action"),
    ("steps.0.belief.gap", -0.1, "gap is not a number from 0 to 1"),
    ("steps.0.search", {"query": "q", "hits": [["p1", "far"]]}, "steps.0.search.hits"),
    ("steps.0.calls", [{"purpose": "answer"}], "steps.0.calls.0"),
    ("weather", "fine", "weather"),
]


def damage(where: str, value: Any) -> bytes:
    """Return the line of an episode with one value replaced."""
    whole = place = json.loads(episode_line(episode("q2")))
    del whole["seal"]
    *path, last = where.split(".")
    for part in path:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return json.dumps(whole).encode() + b"\n"


@pytest.mark.parametrize(("where", "value", "words"), DAMAGE)
def test_a_damaged_line_is_never_a_number(tmp_path: Path, where: str, value: Any, words: str) -> None:
    (tmp_path / "episodes.jsonl").write_bytes(episode_line(episode("q1")) + damage(where, value))
    with pytest.raises(RunError, match=r"Line 2 .*episodes\.jsonl .*Delete that line") as caught:
        read_summaries(tmp_path)
    assert words in caught.value.message


@pytest.mark.parametrize(("where", "value", "words"), STEP_DAMAGE)
def test_a_damaged_step_is_reported_by_whoever_reads_the_whole_episode(
    tmp_path: Path, where: str, value: Any, words: str
) -> None:
    (tmp_path / "episodes.jsonl").write_bytes(damage(where, value))
    assert len(read_summaries(tmp_path)) == 1
    with pytest.raises(RunError, match="Delete that line") as caught:
        list(read_episodes(tmp_path))
    assert words in caught.value.message


@pytest.mark.parametrize("spaced", [False, True])
def test_an_answer_that_was_edited_is_refused(tmp_path: Path, spaced: bool) -> None:
    edited = episode_line(episode("q1")).replace(b"Larvik", b"Bergen")
    edited = json.dumps(json.loads(edited)).encode() + b"\n" if spaced else edited
    (tmp_path / "episodes.jsonl").write_bytes(episode_line(episode("q2")) + edited)
    for read in (read_summaries, lambda run: list(read_episodes(run))):
        with pytest.raises(RunError, match=r"Line 2 .*episodes\.jsonl was changed after .*Delete that line"):
            read(tmp_path)


def test_an_episode_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_bytes(episode_line(episode("q1")))
    assert list(read_episodes(tmp_path)) == [episode("q1")]
    assert list(read_summaries(tmp_path).values()) == [episode("q1").summary()]


def test_a_line_nested_beyond_measure_is_no_episode(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_bytes(b"[" * 200_000 + b"\n")
    with pytest.raises(RunError, match="Line 1 of"):
        read_summaries(tmp_path)


def test_text_that_no_encoding_can_hold_is_written_as_a_question_mark(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_bytes(episode_line(episode("q1", answer="a\ud800b")))
    assert [each.answer for each in read_episodes(tmp_path)] == ["a?b"]


def test_a_prompt_that_is_new_does_not_stop_an_old_run() -> None:
    grown = resume_record(run_record(), run_record(prompts={"answer": "a1", "poem": "p1"}))
    assert grown.prompts == {"answer": "a1"}
    with pytest.raises(RunChanged, match=r"prompt answer a1,.* none"):
        resume_record(run_record(), run_record(prompts={"poem": "p1"}))


def test_a_run_keeps_all_versions_that_it_was_made_with_each_once() -> None:
    first, second, third = ({"beliefrag": "1.0", "xllamacpp": build} for build in ("1", "2", "3"))
    run = run_record(versions=first)
    for versions in (first, second, first, third, second):
        run = resume_record(run, run_record(versions=versions))
    assert run.versions == first
    assert run.later_versions == (second, third)


def test_a_judge_may_come_later_but_not_change() -> None:
    assert resume_record(run_record(), run_record(judge="j")).judge == "j"
    assert resume_record(run_record(judge="j"), run_record()).judge == "j"
    with pytest.raises(RunChanged, match=r"judge j,.* k"):
        resume_record(run_record(judge="j"), run_record(judge="k"))


OTHER = r"another version .*run\.json .*\b9\.9\b"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"format": 2}, "format"),
        ({"weather": "fine"}, "weather"),
        ({"budget": {"top_k": 5, "newfangled": 1}}, r"budget\.newfangled"),
        ({"budget": {"top_k": 0}}, "budget: .*top_k"),
    ],
)
def test_a_record_of_another_version_is_told_as_that(tmp_path: Path, change: dict[str, Any], where: str) -> None:
    record = run_record(versions={"beliefrag": "9.9"}).model_dump(mode="json") | change
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match=OTHER + rf".*{where}") as caught:
        RunRecord.read(tmp_path)
    assert "with that version" in caught.value.remedy


@pytest.mark.parametrize(("text", "problem"), [('{"format": 3}', "made: Field required"), ("{", "the file: ")])
def test_a_run_record_that_is_damaged_is_told(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(RunError, match=problem):
        RunRecord.read(tmp_path)


def test_a_run_with_packing_does_not_go_on_without_it() -> None:
    assert resume_record(run_record(pack=160), run_record(pack=160)).setups["static"].pack == 160
    with pytest.raises(RunChanged, match="160"):
        resume_record(run_record(pack=160), run_record())
    assert "160" in run_record(pack=160).searched_with


def test_a_record_that_leads_to_a_device_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").symlink_to("/dev/zero")
    with pytest.raises(RunError, match="not a regular file"):
        RunRecord.read(tmp_path)
