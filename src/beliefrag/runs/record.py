"""`run.json`: all that a run's numbers depend on so that a run never goes on as something else than it began."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from beliefrag._version import __version__
from beliefrag.answering.packing import describe_packing
from beliefrag.methods import needs_calibration
from beliefrag.models.cost import Price, model_name, price_of
from beliefrag.policy import ScoreScale, Thresholds
from beliefrag.retrieval.injection import check_shares, describe_shares
from beliefrag.runs.run_errors import RunError
from beliefrag.settings import Prices
from beliefrag.types import Budget, Rules, Usage

FORMAT: Final = 3
RUN_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class Injection:
    """How much of what searches return is replaced."""

    noise: float = 0.0
    """The share of hits that irrelevant passages take the place of."""
    counterfactual: float = 0.0
    """The share of hits, as far as there are false passages, that say something false about the question."""
    seed: int = 0

    def __post_init__(self) -> None:
        check_shares(self.noise, self.counterfactual)

    def __bool__(self) -> bool:
        return bool(self.noise or self.counterfactual)

    def __str__(self) -> str:
        words = describe_shares(self.noise, self.counterfactual)
        return f"{words}, drawn by seed {self.seed}" if self else words


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CalibrationRecord(_Strict):
    """Which fit the calibrated methods used."""

    name: str
    sha256: str


class DatasetRecord(_Strict):
    """Which corpus was searched and which questions were asked."""

    fingerprint: str
    gold: str
    """Hash of all questions of the dataset with what is right about them."""
    passages: int
    question_ids: tuple[str, ...]
    licence: str = ""
    source: str = ""
    score_scales: Mapping[str, ScoreScale | None] = {}
    """Where the raw scores of each retriever lie on this corpus; None where they say nothing about relevance."""
    splits: tuple[str, ...] = ()
    """The splits of the questions; empty in runs of older versions."""
    seen_by_calibration: tuple[str, ...] = ()
    """The questions that the run's calibration was fitted or chosen on: numbers on them flatter it."""


class MethodRecord(_Strict):
    """What one method brought to a run."""

    verifier: str
    retriever: str
    pack: int | None = None
    """The most words of evidence that a prompt showed; None where prompts showed whole passages."""
    thresholds: Thresholds
    calibration: CalibrationRecord | None = None
    calibration_warnings: tuple[str, ...] = ()
    """Why its probabilities may be off in this run, such as that it is borrowed."""


class RunRecord(_Strict):
    """What `run.json` holds. Questions are named by id; no benchmark text is in here."""

    format: Literal[3] = FORMAT
    made: str
    versions: Mapping[str, str]
    later_versions: tuple[Mapping[str, str], ...] = ()
    """What else it went on with, each once."""
    model: str
    setups: Mapping[str, MethodRecord]
    prompts: Mapping[str, str]
    budget: Budget
    rules: Rules = Rules()
    """Where the paper's harness was followed in place of ours."""
    judge: str | None
    """The judge's identity; None while nothing was judged."""
    seed: int
    methods: tuple[str, ...]
    method_options: Mapping[str, str] = {}
    """The options of each method that differ from their defaults, as `key=value,...`."""
    datasets: Mapping[str, DatasetRecord]
    injection: Injection | None = None
    """What took the place of what searches found; None where nothing did."""
    interventions: Mapping[str, str] = {}
    """By dataset, which answerability the calibrated methods decided with, where not with their own."""
    settings: Mapping[str, Any]
    price: Price | None = None
    """What the model's tokens cost when they were asked for; None if it is unknown."""
    judge_price: Price | None = None

    @property
    def seen_by_calibration(self) -> int:
        """How many of the questions the calibration was fitted or chosen on."""
        return sum(len(dataset.seen_by_calibration) for dataset in self.datasets.values())

    @property
    def methods_with_options(self) -> tuple[str, ...]:
        """The methods as they would be typed: `NAME`, or `NAME:key=value,...`."""
        options = self.method_options
        return tuple(f"{name}:{options[name]}" if name in options else name for name in self.methods)

    @property
    def calibrated(self) -> bool:
        """Whether one of its methods rests on a calibration."""
        return any(map(needs_calibration, self.methods))

    @property
    def verifier(self) -> str:
        """The verifier form of the methods; several are joined."""
        return "; ".join(dict.fromkeys(each.verifier for each in self.setups.values()))

    @property
    def calibrations(self) -> tuple[CalibrationRecord, ...]:
        """The fits that its methods used, each once."""
        fits = [each.calibration for each in self.setups.values() if each.calibration]
        return tuple({fit.name: fit for fit in fits}.values())

    @property
    def searched_with(self) -> str:
        """The retriever, packing and injection: what is fitted on such states holds for such states."""
        shown = "; ".join(dict.fromkeys(map(self._describe_search, self.setups.values())))
        return f"{shown}, with {self.injection}" if self.injection else shown

    def _describe_search(self, setup: MethodRecord) -> str:
        return describe_packing(setup.retriever, setup.pack, self.rules)

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """Read the record of the run in a folder."""
        path = folder / RUN_FILE
        if path.exists() and not path.is_file():
            raise RunError(f"{path} is not a regular file.")
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
            where = ".".join(str(part) for part in first["loc"])[:60] or "the file"
            raise RunError(
                "The run is damaged, or was made by another version of beliefrag "
                f"(run.json names {_read_version(path):.40}, this is {__version__}): {where}: {first['msg']}.",
                remedy="Read it with that version, restore its run.json, or make the run again.",
            ) from None

    def write(self, folder: Path) -> None:
        """Write the record to another file first: a kill leaves the old one or the new one, never half of one."""
        path, unfinished = folder / RUN_FILE, folder / f"{RUN_FILE}.new"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with unfinished.open("w", encoding="utf-8") as file:
                file.write(json.dumps(self.model_dump(mode="json"), indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError as error:
            raise RunError(
                f"{path} cannot be written: {error.strerror}.", remedy="Name another folder with --out."
            ) from error


def thresholds_of(run: RunRecord) -> Thresholds:
    """Return the thresholds that the run's calibrated method decided with, or else those of its first method."""
    setups = list(run.setups.values())
    return next((each for each in setups if each.calibration), setups[0]).thresholds


def _read_version(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["versions"]["beliefrag"])
    except (ValueError, TypeError, LookupError, RecursionError):
        return "none"


def versions() -> dict[str, str]:
    """Return what the run was made with."""
    ours = {"beliefrag": __version__, "python": platform.python_version(), "system": platform.system()}
    return ours | {name: version(name) for name in ("numpy", "openai", "tantivy", "xllamacpp")}


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def model_price(identity: str, given: Prices) -> Price | None:
    """Return the price of the model that the methods ask: what the settings say, else what the table says."""
    if given.tokens_in is not None and given.tokens_out is not None:
        return Price(given.tokens_in, given.tokens_out, source="the settings")
    return price_of(identity)


def judge_price(identity: str, model: str, given: Prices) -> Price | None:
    """Return the price of the judge. A judge that is the methods' own model costs what that costs."""
    if given.judge_tokens_in is not None and given.judge_tokens_out is not None:
        return Price(given.judge_tokens_in, given.judge_tokens_out, source="the settings")
    return model_price(identity, given) if identity == model else price_of(identity)


def in_dollars(identity: str, price: Price | None, usage: Usage) -> str:
    """Return what this usage costs and which price that rests on, or that no price is known."""
    if price is None:
        return f"no price known for {model_name(identity)}; the settings under prices can give one"
    if price.is_free:
        return f"free ({price.source})"
    money = price.dollars_for(usage)
    rates = f"{_rate(price.tokens_in)} in and {_rate(price.tokens_out)} out for a million tokens"
    calls = f", {_rate(price.call)} for a call" if price.call else ""
    words = f"${money:,.2f}" if money >= 0.01 or not money else "less than $0.01"
    return f"{words} ({rates}{calls}: {price.source})"


def _rate(dollars: float) -> str:
    return f"${dollars:.2f}" if round(dollars, 2) == dollars else f"${dollars:g}"
