"""The one writer and the one reader of episodes: nothing is lost between them, and nothing damaged gets through."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from beliefrag.runs.episode_format import (
    DAMAGED_LINE,
    FORMAT,
    decode_line,
    episode_line,
    read_episode,
    read_summary,
    summary_record,
)

from beliefrag.runs.record import RunRecord

RECORDED = Path(__file__).parents[1] / "recorded"


def lines(name: str) -> list[bytes]:
    """The lines of a run that an earlier version wrote."""
    return gzip.decompress((RECORDED / name / "episodes.jsonl.gz").read_bytes()).splitlines(keepends=True)


@pytest.mark.parametrize("name", ["run", "injected"])
def test_a_line_of_an_earlier_version_is_written_back_byte_for_byte(name: str) -> None:
    for line in lines(name):
        assert episode_line(read_episode(decode_line(line))) == line


@pytest.mark.parametrize("name", ["run", "injected"])
def test_the_summary_of_an_episode_is_that_of_its_line_and_is_read_back(name: str) -> None:
    for line in lines(name):
        summary = read_summary(decode_line(line), offset=7)
        assert read_episode(decode_line(line)).summary(offset=7) == summary
        assert read_summary(json.loads(json.dumps(summary_record(summary))), offset=7) == summary


def test_another_version_is_refused() -> None:
    record = decode_line(lines("run")[0])
    assert RunRecord.read(RECORDED / "run").format == FORMAT
    with pytest.raises(ValueError, match="format is 1"):
        read_summary({**record, "format": 1})


def last_step(record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = record["steps"][-1]
    return found


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda r: r["usage"].update(tokens=r["usage"]["tokens"] + 1), "usage.tokens"),
        (lambda r: r["usage"].update(searches=-1), "usage.searches is -1"),
        (lambda r: r.update(answer=5), "answer is 5"),
        (lambda r: r.update(answerability=1.5), "answerability is 1.5"),
        (lambda r: r.update(sources="p1"), "sources is 'p1'"),
        (lambda r: r.update(sources=[1]), "sources"),
        (lambda r: r["timing"].update(calls=[-0.1]), "timing.calls is -0.1"),
        (lambda r: r["calls"][0].update(tokens_in=1.5), "calls.tokens_in is 1.5"),
        (lambda r: r["calls"][0].pop("reply"), "'reply'"),
        (lambda r: last_step(r).update(legal=["DANCE"]), "DANCE"),
        (lambda r: last_step(r).pop("evidence"), "'evidence'"),
        (lambda r: r["steps"][0].update(hits=[["p1"]]), "out of range"),
        (lambda r: r["steps"][0].update(hits=[["p1", "far"]]), "hits is 'far'"),
        (lambda r: r["steps"][0].pop("added"), "step 0 .*search"),
    ],
)
def test_a_damaged_episode_is_refused(damage: Callable[[dict[str, Any]], object], words: str) -> None:
    record = next(r for r in map(decode_line, lines("run")) if r["method"] == "static" and r["outcome"] != "failed")
    assert record["steps"][0]["action"] == "RETRIEVE"
    damage(record)
    with pytest.raises(DAMAGED_LINE) as caught:
        read_episode(record)
    assert re.search(words, str(caught.value))
