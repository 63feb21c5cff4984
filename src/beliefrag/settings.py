"""Every setting, its default, and the source of its value.

From weakest to strongest: the defaults here, the user's file, the project's `beliefrag.toml` (or the file of --config),
BELIEFRAG_* variables, and what was typed. Budget and Thresholds are the method's own types. A profile is a bundle of
settings, one for each setup of the controller; it fills in what is set nowhere else.
"""

from __future__ import annotations

import logging
import math
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from beliefrag.errors import SettingsError
from beliefrag.policy import Thresholds
from beliefrag.types import Budget, Reading, Rules

AnswerStyle = Literal["short", "sentence", "paragraph"]
"""How an answer is written."""
DEFAULT_MODEL = "local:qwen2.5-coder-1.5b"

_PREFIX = "BELIEFRAG_"
_OPTIONS = ("BELIEFRAG_METHODS__", "BELIEFRAG_RETRIEVERS__", "BELIEFRAG_MODELS__")
_OTHER_VARIABLES = frozenset({"BELIEFRAG_CACHE_DIR", "BELIEFRAG_DATA", "BELIEFRAG_TOKEN"})
_log = logging.getLogger(__name__)


DECLINE_BELOW = 0.45
"""Where questions are asked, an answer that is less likely right than this is not given.

docs/results/diagnostics.md shows what it declines. The paper's own numbers cannot give less than 0.408.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """How a method searches, what its prompts show and what its verifier is."""

    name: str
    retriever: str
    pack: int | None
    """The most words of evidence in a prompt of the embedded model; None shows whole passages."""
    served_pack: int | None
    """The same for any other model: 600 words hold all that a search with the usual budget finds."""
    candidates: int
    """How many candidates of a search are scored, to tell how much of what is relevant was not retained."""
    reads_draft: bool
    """Whether all diagnostics come from one drafted answer (`draft`, or `stated` without token probabilities)."""
    corrects: bool
    """Whether conflict, unreliable evidence and flagged passages start a correction."""

    def apply_to(self, thresholds: Thresholds) -> Thresholds:
        """Return the thresholds with the corrections that this profile leaves out switched off."""
        if self.corrects:
            return thresholds
        switches = {each.name: False for each in fields(Thresholds) if each.name.startswith("correct_")}
        return replace(thresholds, **switches)


PROFILES = {
    "paper": Profile(
        "paper", retriever="bm25", pack=None, served_pack=None, candidates=0, reads_draft=False, corrects=True
    ),
    "default": Profile(
        "default", retriever="linked", pack=150, served_pack=600, candidates=15, reads_draft=True, corrects=False
    ),
}


PAPER_SETTINGS: Mapping[str, Any] = {
    "method": "beliefrag",
    "retriever": "bm25",
    "pack": 0,
    "verifier": "structured",
    "rules": {"observe_each_step": True, "literal_novelty": True, "repeat_queries": True},
    "thresholds": {"merge_rewriter": False},
    "models": {"openai": {"temperature": 0.0, "limit_replies": False}},
}
"""What the setting `profile` makes of settings that are set nowhere: the paper's harness to the letter."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of a million tokens under the user's contract, in US dollars; None takes the bundled price table."""

    tokens_in: float | None = None
    """US dollars for a million tokens that the model reads."""
    tokens_out: float | None = None
    """US dollars for a million tokens that the model writes; both are set or neither."""
    judge_tokens_in: float | None = None
    """The same for what the judge reads, where it is another model or has another contract."""
    judge_tokens_out: float | None = None
    """The same for what the judge writes."""

    def __post_init__(self) -> None:
        for whose in ("", "judge_"):
            pair = [getattr(self, f"{whose}{name}") for name in ("tokens_in", "tokens_out")]
            if pair.count(None) == 1:
                raise ValueError(f"{whose}tokens_in and {whose}tokens_out are set together or not at all")
            if any(price is not None and not 0 <= price < math.inf for price in pair):
                raise ValueError(f"a price is a number of dollars, 0 or more, not {pair[0]} and {pair[1]}")


@dataclass(frozen=True, slots=True)
class PathRule:
    """Which groups may read the files that a pattern describes."""

    pattern: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenRule:
    """A file with the token of a client, and the groups that the client belongs to."""

    file: Path
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Who may read what on a server; without tokens, every client reads all documents."""

    tokens: tuple[TokenRule, ...] = ()
    """The clients of a server, as `[[access.tokens]]` with `file` and `groups`."""
    paths: tuple[PathRule, ...] = ()
    """Who may read which documents, as `[[access.paths]]` with `pattern` and `groups`; the first match decides."""


class Settings(BaseModel):
    """All settings. Each has a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: Literal["paper"] | None = Field(
        default=None, description="paper follows the paper to the letter; by default each method brings its own profile"
    )
    model: str = Field(
        default=DEFAULT_MODEL,
        description="the model: local:NAME or local:FILE.gguf runs on this machine, scripted:FILE plays a script, any "
        "other name is a model of base_url",
    )
    base_url: str | None = Field(
        default=None, description="address of an OpenAI-compatible server; OPENAI_BASE_URL by default"
    )
    timeout: float = Field(default=120.0, gt=0, description="seconds that one call to an endpoint may take")
    retry_seconds: float = Field(default=120.0, ge=0, description="seconds to keep trying an endpoint that fails")
    concurrency: int = Field(default=16, ge=1, description="most calls to an endpoint at a time")
    context: int = Field(default=6144, ge=512, description="context of the embedded model, in tokens")
    threads: int | None = Field(default=None, ge=1, description="threads of the embedded model; all cores by default")
    verifier: str | None = Field(default=None, description="verifier form; by default the one that suits the model")
    prompts: Path | None = Field(default=None, description="folder with prompts that replace ours")
    calibration: str | None = Field(
        default=None, description="calibration fitted for this model; by default the shipped one"
    )
    borrow: str | None = Field(
        default=None, description="calibration of another model; its probabilities may be wrong for yours"
    )
    max_error: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="largest share of wrong answers among those given; needs a guarantee in the calibration",
    )
    confidence: float = Field(default=0.9, gt=0, lt=1, description="the probability with which max_error must hold")
    cache: bool = Field(default=True, description="keep model replies so that nothing is paid for twice")
    method: str = Field(
        default="lean",
        description="method that answers, as NAME or NAME:key=value,...; by default lean, or beliefrag if borrow "
        "names the paper's calibration",
    )
    methods: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict, description="options of methods by name, such as rounds = 2 under [methods.iterative]"
    )
    retriever: str | None = Field(
        default=None,
        description="retriever that searches, as NAME or NAME:key=value,...; by default linked for lean, else bm25",
    )
    retrievers: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict,
        description="options of retrievers by name, such as ranker = 'mine.npz' under [retrievers.linked]",
    )
    models: Mapping[str, Mapping[str, Any]] = Field(
        default_factory=dict,
        description="options of model providers by name, such as temperature = 0.2 under [models.openai]",
    )
    answer_style: AnswerStyle | None = Field(
        default=None,
        description="how an answer is written: short (a few words), sentence or paragraph; by default sentence in ask, "
        "app and serve, and short with --quiet and in Python; benchmarks are always short",
    )
    pack: int | None = Field(
        default=None,
        ge=0,
        description="most words of evidence that a prompt shows, as sentences; 0 shows whole passages; by default 150 "
        "for lean with an embedded model, 600 for lean with any other, else whole passages",
    )
    budget: Budget = Budget()
    thresholds: Thresholds = Thresholds()
    rules: Rules = Rules()
    prices: Prices = Prices()
    access: AccessRules = AccessRules()
    reading: Reading = Reading()

    @model_validator(mode="wrap")
    @classmethod
    def _choose_method(cls, given: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        """Fill in what a profile says, and default to the paper's method where its numbers are borrowed."""
        if isinstance(given, dict) and given.get("profile") == "paper":
            given = _fill_in(given, PAPER_SETTINGS)
        if not isinstance(given, dict) or given.get("method") is not None or given.get("borrow") != "published":
            return validate(given)
        settings = validate({**given, "method": "beliefrag"})
        # It was not named.
        settings.model_fields_set.discard("method")
        return settings

    @property
    def is_embedded(self) -> bool:
        """Whether the model runs in this process."""
        return self.model.startswith("local:")

    @field_serializer("models", when_used="json")
    def _hide_headers(self, models: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Headers can hold keys, which no record and no listing shows."""
        return {
            name: {**given, **dict.fromkeys(given.keys() & {"headers"}, "not shown")} for name, given in models.items()
        }

    @field_validator("pack")
    @classmethod
    def _check_pack(cls, words: int | None) -> int | None:
        if words is not None and 0 < words < 20:
            raise ValueError("give at least 20 words, for a sentence with its title, or 0 for whole passages")
        return words


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings in force, with the source of each."""

    settings: Settings
    sources: Mapping[str, str]

    def rows(self) -> Iterator[tuple[str, Any, str]]:
        """Yield the name, value and source of every setting."""
        for name, value in _flatten(self.settings.model_dump(mode="json")):
            yield name, value, self.sources.get(name, "default")


def load_settings(typed: Mapping[str, Any] | None = None, *, config: Path | None = None) -> LoadedSettings:
    """Read the settings from every source and merge them.

    `typed` comes from the command line or from code; its None values are ignored. `config` replaces `beliefrag.toml`.
    """
    user = config_dir() / "config.toml"
    project = config or Path("beliefrag.toml")
    layers = [
        ("OPENAI_MODEL", _read_openai_model()),
        (str(user), _read_file(user, required=False)),
        (str(project), _read_file(project, required=config is not None)),
        ("environment", _read_environment()),
        ("an option", {name: value for name, value in (typed or {}).items() if value is not None}),
    ]
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, values in layers:
        for name, value in _flatten(values):
            sources[name] = _variable_name(name) if source == "environment" else source
            _set_value(merged, name, value)
    try:
        return LoadedSettings(Settings.model_validate(merged), sources)
    except ValidationError as error:
        raise describe_error(error, sources) from None


def _read_file(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not required:
            return {}
        raise SettingsError(f"The settings file {path} does not exist.", remedy="Check what --config names.") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"Cannot read the settings file {path}: {error}.", remedy="Fix or remove it.") from error


def _read_environment() -> dict[str, Any]:
    values: dict[str, Any] = {}
    known = {_variable_name(name): name for name, _ in _flatten(Settings().model_dump())}
    for variable, text in os.environ.items():
        if variable in known:
            _set_value(values, known[variable], text)
        elif variable.startswith(_OPTIONS) and variable.count("__") == 2:
            _set_value(values, variable.removeprefix(_PREFIX).lower().replace("__", "."), text)
        elif variable.startswith(_PREFIX) and variable not in _OTHER_VARIABLES:
            _log.warning("%s is not a setting and is ignored; 'beliefrag config show' lists all settings.", variable)
    return values


def _read_openai_model() -> dict[str, Any]:
    """Return the model that OPENAI_MODEL names, where a key or an address belongs to it. Files and ours override it."""
    names = ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY")
    model, *server = (os.environ.get(name, "").strip() for name in names)
    return {"model": model} if model and any(server) else {}


def _variable_name(name: str) -> str:
    return f"{_PREFIX}{name.upper().replace('.', '__')}"


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _fill_in(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is given, with defaults for what is not; a group that is given as an object is left as it is."""
    filled = dict(given)
    for name, value in defaults.items():
        own = filled.get(name)
        if isinstance(own, Mapping) and isinstance(value, Mapping):
            filled[name] = _fill_in(own, value)
        elif own is None:
            filled[name] = value
    return filled


def _set_value(values: dict[str, Any], name: str, value: Any) -> None:
    *groups, last = name.split(".")
    for group in groups:
        values = values.setdefault(group, {})
    values[last] = value


def describe_error(error: ValidationError, sources: Mapping[str, str], *, prefix: str = "") -> SettingsError:
    """Return the first problem in one line; `sources` is by dotted name, and `prefix` begins each name."""
    first = error.errors()[0]
    name = prefix + ".".join(str(part) for part in first["loc"])
    source = sources.get(name) or next((s for n, s in sources.items() if n.startswith(f"{name}.")), "an option")
    if first["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return SettingsError(
            f"Unknown setting {name!r} (from {source}).", remedy="'beliefrag config show' lists all settings."
        )
    origin = "" if source == "an option" else f" (from {source})"
    words = first["msg"].removeprefix("Value error, ")
    return SettingsError(f"The setting {name}{origin} cannot be used: {words}.")


def config_dir() -> Path:
    """Return the folder for the user's own settings and calibrations; it is not created here."""
    home = os.environ.get("XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "beliefrag"


def cache_dir() -> Path:
    """Return the folder for everything that may be deleted without loss; it is not created here.

    `BELIEFRAG_CACHE_DIR` if set, otherwise `beliefrag` in `XDG_CACHE_HOME` or in `~/.cache`.
    """
    try:
        if own := os.environ.get("BELIEFRAG_CACHE_DIR"):
            return Path(own).expanduser().absolute()
        shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # The XDG specification says that a relative value is to be ignored.
        return (shared if shared.is_absolute() else Path.home() / ".cache") / "beliefrag"
    except RuntimeError:
        raise SettingsError("This user has no home folder.", remedy="Set BELIEFRAG_CACHE_DIR to a folder.") from None
