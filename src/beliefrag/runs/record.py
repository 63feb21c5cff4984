"""`run.json`: all that a run's numbers depend on, so that a run never goes on as something else than it began."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from beliefrag._version import __version__
from beliefrag.bench.counterfactuals import wrong_ids
from beliefrag.bench.perturbation import Injection
from beliefrag.bench.questions import LabelledQuestion
from beliefrag.methods import needs_calibration
from beliefrag.models.cost import Price
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.runs.compatibility import made_by_another_version
from beliefrag.runs.errors import RunChanged, RunError
from beliefrag.types import Budget

__all__ = ["RUN_FILE", "CalibrationRecord", "DatasetRecord", "RunRecord", "gold_hash", "merged", "now", "versions"]

RUN_FILE = "run.json"
_FIXED = ("model", "verifier", "retriever", "budget", "thresholds", "seed", "injection")
_DEFAULTS = {"budget": asdict(Budget()), "thresholds": asdict(Thresholds())}
"""A limit or threshold that did not exist when a run began stood where its default stands."""
_HOLDS_BACK = "least_answerability"
"""The threshold that only a method with a calibration can keep to: it shapes the numbers of no other one."""
_CALIBRATED_SETTINGS = ("borrow", "calibration", "confidence", "max_error", "thresholds")
"""What a run's first calibrated method decides with."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CalibrationRecord(_Strict):
    """Which fit the calibrated methods used."""

    name: str
    sha256: str


class DatasetRecord(_Strict):
    """Which corpus was searched and which questions were asked."""

    fingerprint: str
    """Of the passages."""
    gold: str
    """Hash of all questions of the dataset with what is right about them."""
    passages: int
    question_ids: tuple[str, ...]
    licence: str = ""
    source: str = ""
    score_scale: ScoreScale | None = None
    """Where the corpus's raw scores lie; None in the record of a run from before it was kept."""
    seen_by_calibration: tuple[str, ...] = ()
    """Those of the questions that the run's calibration was fitted or chosen on: numbers on them flatter it."""


class RunRecord(_Strict):
    """What `run.json` holds. Questions are named by id; no benchmark text is in here."""

    format: Literal[1] = 1
    made: str
    versions: Mapping[str, str]
    """What it began with."""
    later_versions: tuple[Mapping[str, str], ...] = ()
    """What else it went on with, each once."""
    model: str
    """The model's identity."""
    verifier: str
    retriever: str
    prompts: Mapping[str, str]
    budget: Mapping[str, int]
    thresholds: Mapping[str, float | bool | None]
    calibration: CalibrationRecord | None
    """None while no method needed one."""
    judge: str | None
    """The judge's identity; None while nothing was judged."""
    seed: int
    methods: tuple[str, ...]
    datasets: Mapping[str, DatasetRecord]
    injection: Injection | None = None
    """What took the place of what searches found; None where nothing did."""
    interventions: Mapping[str, str] = {}
    """By dataset, which answerability the calibrated methods decided with, where not with their own."""
    settings: Mapping[str, Any]
    """As they were resolved when the run began."""
    price: Price | None = None
    """What the model's tokens cost when they were asked for; None where nobody knows."""
    judge_price: Price | None = None

    @property
    def seen_by_calibration(self) -> int:
        """How many of the questions the calibration was fitted or chosen on."""
        return sum(len(dataset.seen_by_calibration) for dataset in self.datasets.values())

    @property
    def calibrated(self) -> bool:
        """Whether one of its methods rests on a calibration."""
        return any(map(needs_calibration, self.methods))

    @property
    def searched_with(self) -> str:
        """The retriever, and what was injected into its hits: what is fitted on such states holds for such states."""
        return f"{self.retriever}, with {self.injection}" if self.injection else self.retriever

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """The record of the run in a folder.

        Raises:
            RunError: There is none, or it cannot be used.
        """
        path = folder / RUN_FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise RunError(
                f"{folder} holds no run.", remedy="Name the folder that was given to 'beliefrag bench run --out'."
            ) from None
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}.") from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            if (told := _of_another_version(path, first)) is not None:
                raise told from None
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            raise RunError(f"{path} is not the record of a run: {where}: {first['msg']}.") from None

    def write(self, folder: Path) -> None:
        """Writes the record, aside first: a kill leaves the old one or the new one, never half of one."""
        path, aside = folder / RUN_FILE, folder / f"{RUN_FILE}.new"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with aside.open("w", encoding="utf-8") as file:
                file.write(json.dumps(self.model_dump(mode="json"), indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError as error:
            raise RunError(
                f"{path} cannot be written: {error.strerror}.", remedy="Name another folder with --out."
            ) from error


def _of_another_version(path: Path, found: ErrorDetails) -> RunError | None:
    """What to say where the file is whole, and has another format or a field that is not known here."""
    if found["type"] != "extra_forbidden" and found["loc"] != ("format",):
        return None
    versions = json.loads(path.read_bytes()).get("versions")
    where = ".".join(str(part) for part in found["loc"])
    what = f"the format {found['input']!r:.40}" if where == "format" else f"{where:.60}, which is not known here"
    return made_by_another_version(versions, what)


def merged(before: RunRecord, now: RunRecord) -> RunRecord:
    """The record of a run that goes on: what may grow (methods, datasets, questions) grown, all else as it began.

    Other versions of the software are no reason to refuse, since most change no number; they are all kept.

    Raises:
        RunChanged: Something that shapes the numbers is not what it was.
    """
    for what, old, new in _differences(before, now):
        raise RunChanged(
            f"This run began with the {what} {old}, and is asked to go on with {new}.",
            remedy="Go on with what it began with, or name another folder with --out.",
        )
    datasets = dict(before.datasets)
    for name, dataset in now.datasets.items():
        known = datasets.get(name, dataset)
        grown = {
            "question_ids": _joined(known.question_ids, dataset.question_ids),
            "seen_by_calibration": _joined(known.seen_by_calibration, dataset.seen_by_calibration),
        }
        datasets[name] = dataset.model_copy(update=grown)
    methods = (*before.methods, *(method for method in now.methods if method not in before.methods))
    others = [now.versions] if now.versions not in (before.versions, *before.later_versions) else []
    return before.model_copy(
        update={
            "later_versions": (*before.later_versions, *others),
            "datasets": datasets,
            "interventions": {**before.interventions, **now.interventions},
            "methods": methods,
            "calibration": before.calibration or now.calibration,
            "judge": before.judge or now.judge,
            # The newest word on prices counts: they shape no number, and a mended one should be taken.
            "price": now.price or before.price,
            "judge_price": now.judge_price or before.judge_price,
            **(_first_calibrated(before, now) if now.calibrated and not before.calibrated else {}),
        }
    )


def _first_calibrated(before: RunRecord, now: RunRecord) -> dict[str, Any]:
    """What a run without a calibrated method left open, as its first one has it."""
    thresholds = {name: value for name, value in now.thresholds.items() if name == _HOLDS_BACK}
    settings = {name: value for name, value in now.settings.items() if name in _CALIBRATED_SETTINGS}
    return {"thresholds": {**before.thresholds, **thresholds}, "settings": {**before.settings, **settings}}


def _joined(known: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return (*known, *(each for each in more if each not in set(known)))


def _or_none(value: Any) -> Any:
    return "none" if value is None or value == "" else value


def _differences(before: RunRecord, now: RunRecord) -> Iterator[tuple[str, Any, Any]]:
    for name in _FIXED:
        old, new = getattr(before, name), getattr(now, name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            then, today = ({**_DEFAULTS[name], **values} for values in (old, new))
            if not (before.calibrated and now.calibrated):
                then.pop(_HOLDS_BACK, None)
            yield from ((f"{name} {key}", then[key], today.get(key)) for key in then if then[key] != today.get(key))
        elif old != new:
            yield name, _or_none(old), _or_none(new)
    for name, digest in before.prompts.items():
        # A prompt that did not exist when the run began shaped nothing in it.
        if now.prompts.get(name) != digest:
            yield f"prompt {name}", digest, now.prompts.get(name)
    if before.calibration and now.calibration and before.calibration != now.calibration:
        named = [f"{each.name} ({each.sha256[:12]})" for each in (before.calibration, now.calibration)]
        yield "calibration", named[0], named[1]
    if before.judge and now.judge and before.judge != now.judge:
        yield "judge", before.judge, now.judge
    for name in before.datasets.keys() & now.datasets.keys():
        old, new = before.datasets[name], now.datasets[name]
        if old.fingerprint != new.fingerprint:
            yield f"corpus of {name}", old.fingerprint, new.fingerprint
        if old.gold != new.gold:
            yield f"questions of {name}", old.gold, new.gold
        what = [run.interventions.get(name, "its own") for run in (before, now)]
        if what[0] != what[1]:
            yield f"answerability on {name}", what[0], what[1]


def gold_hash(questions: tuple[LabelledQuestion, ...]) -> str:
    """A hash of questions with what is right and what is false about them, whatever their order in the file."""
    rows = [
        [
            *(q.id, q.question.text, q.gold.answers, q.gold.supporting, q.gold.answer_groups, q.gold.is_set),
            *((q.gold.fake_answer, *wrong_ids(q.gold)) if q.gold.fake_answer else ()),
        ]
        for q in sorted(questions, key=lambda question: question.id)
    ]
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()[:32]


def versions() -> dict[str, str]:
    """What the run was made with."""
    parts = {name: version(name) for name in ("numpy", "openai", "tantivy", "xllamacpp")}
    return {"beliefrag": __version__, "python": platform.python_version(), "system": platform.system(), **parts}


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
