"""An episode from its line in a run, with what its dataset adds: texts, gold answer, supporting passages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from beliefrag.methods import METHODS
from beliefrag.runs.record import RunRecord
from beliefrag.types import Passage
from beliefrag.web.view.errors import NotHere, ViewError
from beliefrag.web.view.sanitise import Material
from beliefrag.web.view.schema import EpisodeView

__all__ = ["episode_of_run", "thresholds_in_force"]

_SWITCHES = {
    "conflict": "correct_conflict",
    "reliability": "correct_unreliable",
    "abstain_sufficiency": "abstain",
    "abstain_uncertainty": "abstain",
    "abstain_answerability": "abstain",
}
"""Thresholds that count only while something is switched on."""


def thresholds_in_force(all_of_them: Mapping[str, float | bool | None]) -> dict[str, float]:
    """The thresholds that decide something, by name."""
    return {
        name: float(value)
        for name, value in all_of_them.items()
        if value is not None and not isinstance(value, bool) and all_of_them.get(_SWITCHES.get(name, ""), True)
    }


def episode_of_run(record: Mapping[str, Any], number: int, run: RunRecord, material: Material) -> EpisodeView:
    """The episode of one line.

    Raises:
        ViewError: The line lacks something or holds another type than it should.
    """
    notes: list[str] = []
    try:
        view = _view(record, number, run)
        passages = _add_material(view, notes, material)
        timing = record["timing"]
        seconds = timing.get("calls") or [None] * len(record["calls"])
        view["seconds"] = timing.get("model_seconds")
        view["steps"] = list(_steps(record, view.get("question")))
        view["calls"] = [{**call, "seconds": took} for call, took in zip(record["calls"], seconds, strict=True)]
        view["passages"] = {each: _passage(passages.get(each)) for each in _ids(record, view.get("gold"))}
        return EpisodeView.model_validate({**view, "notes": notes})
    except (KeyError, TypeError, AttributeError, ValueError, ValidationError) as error:
        raise ViewError(
            f"Episode {number} of the run cannot be shown: its line lacks something or is damaged ({error!s:.100})."
        ) from None


def _view(record: Mapping[str, Any], number: int, run: RunRecord) -> dict[str, Any]:
    dataset = record["dataset"]
    return {
        **{name: record[name] for name in ("method", "dataset", "question_id", "seed", "outcome", "answer", "reason")},
        **{name: record[name] for name in ("answerability", "metrics", "usage", "sources")},
        "error": record.get("error"),
        "origin": "run",
        "id": number,
        "method_title": METHODS.title(record["method"]),
        "model": run.model,
        "made_with": _made_with(run),
        "budget": run.budget,
        "thresholds": thresholds_in_force(run.thresholds),
        "licence": run.datasets[dataset].licence if dataset in run.datasets else "",
    }


def _add_material(view: dict[str, Any], notes: list[str], material: Material) -> Mapping[str, Passage]:
    """Adds the question and what is right about it, where the dataset is at hand, and gives its passages."""
    try:
        benchmark = material.benchmark(view["dataset"])
    except NotHere as error:
        notes.append(str(error))
        return {}
    notes += [benchmark.note] if benchmark.note else []
    labelled = benchmark.questions.get(view["question_id"])
    if labelled is not None:
        view["question"] = labelled.question.text
        view["gold"] = {"answers": labelled.gold.answers, "supporting": labelled.gold.supporting}
    return benchmark.passages


def _made_with(run: RunRecord) -> dict[str, str]:
    made = {"verifier": run.verifier, "retriever": run.retriever}
    if run.calibration is not None:
        made["calibration"] = run.calibration.name
    return made


def _steps(record: Mapping[str, Any], question: str | None) -> Iterator[dict[str, Any]]:
    for recorded in record["steps"]:
        step = dict(recorded)
        query = step.pop("query", None)
        if step["action"] == "RETRIEVE" and "added" in step:
            own = step.get("query_is_the_question", False)
            step["search"] = {
                "query": question if own else query,
                "is_question": own,
                "hits": step.get("hits", ()),
                **{name: step[name] for name in ("added", "known", "refused")},
            }
        elif step["action"] == "REWRITE":
            step["rewritten"] = query
        # The reason for a removal is the reason of the step that removed it.
        step["dropped"] = [{"id": each, "why": step["reason"]} for each in step.get("dropped", ())]
        yield step


def _ids(record: Mapping[str, Any], gold: Mapping[str, Any] | None) -> Iterator[str]:
    """Every passage that the episode names, and those that the answer rests on."""
    seen = dict.fromkeys(record["sources"])
    for step in record["steps"]:
        for name in ("added", "known", "refused", "dropped", "evidence", "flagged"):
            seen |= dict.fromkeys(step.get(name, ()))
        seen |= dict.fromkeys(hit[0] for hit in step.get("hits", ()))
    yield from seen | dict.fromkeys((gold or {}).get("supporting") or ())


def _passage(passage: Passage | None) -> dict[str, Any]:
    return {"title": passage.title, "text": passage.text, "source": passage.source} if passage else {}
