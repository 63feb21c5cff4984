"""Episodes of traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from beliefrag.web.view import TraceSource, ViewError
from beliefrag.web.view.schema import NotAvailable
from tests.support.viewing import SCRIPT


def test_a_trace_holds_the_whole_episode(trace: Path) -> None:
    source = TraceSource(trace)
    view = source.episode(0)
    record = view.record
    assert (view.origin, record.outcome, record.answer) == ("trace", "stopped", "Larvik")
    assert [step.action for step in record.steps][:4] == ["RETRIEVE", "VERIFY", "REWRITE", "RETRIEVE"]
    first, second = record.steps[:2]
    assert first.search is not None and first.search.query == view.question
    assert len(first.search.hits) == len(first.search.added) == 2
    assert second.dropped == (first.search.added[1],)
    assert "flagged" in view.reasons[1]
    assert set(view.passages) == set(first.search.added)
    assert any(passage and SCRIPT in passage.text for passage in view.passages.values())
    assert view.thresholds["answer"] == 0.5
    assert record.usage.calls == len(record.calls)
    assert view.question is not None and view.question in record.calls[0].messages[-1]["content"]
    assert [call.repairs for call in record.calls[:2]] == [{"repaired": 1}, {}]


def test_there_is_one_episode_in_a_trace(trace: Path) -> None:
    with pytest.raises(NotAvailable, match=r"Only episode 0 .*not episode 1"):
        TraceSource(trace).episode(1)


def test_a_trace_that_was_torn_by_a_kill_is_shown_as_far_as_it_goes(trace: Path, tmp_path: Path) -> None:
    lines = trace.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    record = TraceSource(torn).episode(0).record
    assert (record.outcome, record.cause, len(record.steps)) == ("failed", "torn", 1)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no json\n",
        b"[1, 2]\n",
        b'{"event": "started"}\n',
        b'{"number": 0, "action": "RETRIEVE"}\n',
        b'{"method": "x", "question": 7}\n',
        b"\xff\xfe\x00\n",
    ],
)
def test_what_is_not_a_trace_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    with pytest.raises(ViewError, match="is not a trace"):
        TraceSource(file)
