"""The artifact: fitted numbers as readable JSON with their origin, quality and guarantees, and the choice of one.

In all numbers a question counts once: its states share its weight. Intervals are 95 % bootstraps over questions.
An artifact holds only for the model, verifier form, prompts and retriever that it was fitted with. For anything else it
is used only on request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from beliefrag.errors import CalibrationError, SettingsError
from beliefrag.policy import (
    Calibration,
    FittedValue,
    IsotonicAnswerability,
    LogisticAnswerability,
    PlattAnswerability,
    ScheduledValue,
    ScoreScale,
    Thresholds,
)
from beliefrag.runs.estimate import Estimate
from beliefrag.runs.partitions import select_held_out
from beliefrag.settings import config_dir
from beliefrag.types import Budget
from beliefrag.verifiers import DRAFT_FORMS

if TYPE_CHECKING:
    from beliefrag.runs.record import RunRecord

Kind = Literal["logistic", "platt", "isotonic"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


AnswerabilityFit = LogisticAnswerability | PlattAnswerability | IsotonicAnswerability


def _three_numbers(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


Bounded = Annotated[Estimate, PlainSerializer(_three_numbers)]


class Bin(_Strict):
    """One step of a reliability curve."""

    low: float
    high: float
    states: int
    share: float
    predicted: float
    observed: float


class Quality(_Strict):
    """The quality of probabilities on questions that neither the fit nor the choice has seen."""

    states: int
    questions: int
    share: float
    brier: Bounded
    brier_base_rate: float
    """The Brier score of always predicting the share of the fitted questions."""
    brier_gain: Bounded
    """Base rate minus fit: above 0 the fit is better than no fit."""
    auc: Bounded | None
    ece: float
    curve: tuple[Bin, ...]


class PartCount(_Strict):
    """How many states and questions one part of the questions has, by outcome."""

    states: int
    positive: int
    questions: int
    questions_positive: int
    questions_negative: int


class AnswerabilityReport(_Strict):
    """The fit of answerability."""

    counts: Mapping[str, PartCount]
    without_evidence: int
    """States left out because nothing was retained: their diagnostics are constants."""
    unlabelled: int
    base_rate: float
    selection: Mapping[str, float]
    coefficients: Mapping[str, Mapping[str, Bounded]]
    alone: Mapping[str, float]
    """AUC of each diagnostic by itself on the fitted questions; 0.5 carries no signal."""
    held_out: Quality | None


class ValueReport(_Strict):
    """The fit of the retrieval value, on searches from states that were not answerable."""

    counts: Mapping[str, PartCount]
    base_rate: float
    coefficients: Mapping[str, Bounded]
    held_out: Quality | None


class CorpusReport(_Strict):
    """One dataset that states come from."""

    fingerprint: str
    passages: int
    questions: int
    score_scale: ScoreScale | None


class FitReport(_Strict):
    """Everything about a fit that is not needed to use it."""

    label: str
    judge: str | None
    methods: tuple[str, ...]
    datasets: Mapping[str, CorpusReport]
    budget: Mapping[str, int]
    versions: Mapping[str, str]
    fit_questions: tuple[str, ...]
    selection_questions: tuple[str, ...]
    division: Literal["hash", "given"] = "hash"
    """Whether the hash of an id said what a question is for, or the user, by naming runs."""
    answerability: AnswerabilityReport
    retrieval_value: ValueReport | None
    warnings: tuple[str, ...]


class Guarantee(_Strict):
    """The threshold for one target, for one policy: with another one questions end elsewhere."""

    max_error: float = Field(gt=0, lt=1)
    """Of the answers given, at most this share is wrong."""
    confidence: float = Field(gt=0, lt=1)
    """The probability of that, over the draw of the questions that it was chosen on."""
    threshold: float | None = Field(ge=0, le=1)
    """Answer from this answerability on; None if no threshold met the target."""
    questions: int
    answered: int
    wrong: int
    label: str
    datasets: Mapping[str, str]
    """Where the questions came from, with the fingerprint of the passages."""
    method: str
    thresholds: Thresholds
    budget: Budget
    prompts: Mapping[str, str]
    made: str
    spread: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    """The quantiles of its questions' diagnostics: questions that spread otherwise are not like them."""

    def has_target(self, max_error: float, confidence: float) -> bool:
        """Return whether this is the guarantee for that target; 0.1 and 0.1 + 1e-12 are one."""
        return abs(self.max_error - max_error) < 1e-9 and abs(self.confidence - confidence) < 1e-9

    def differences(self, thresholds: Thresholds, budget: Budget, prompts: Mapping[str, str]) -> Iterator[str]:
        """List what has changed since the threshold was chosen."""
        now = _name_settings(thresholds, budget)
        for name, value in _name_settings(self.thresholds, self.budget).items():
            if now[name] != value:
                yield f"{name} {value}, not {now[name]}"
        yield from (
            f"another prompt {name}" for name, digest in self.prompts.items() if prompts.get(name, digest) != digest
        )

    def describe_shift(self, diagnostic: str, needed: int) -> str:
        """Return that it does not hold for questions whose diagnostics spread otherwise."""
        return (
            f"{self} does not apply here: by their {diagnostic}, the questions asked about these documents are unlike "
            f"those that it was made from. Label at least {needed:,} questions of your own for another one"
        )

    def words(self, corpus: str | None) -> str:
        """Return what is guaranteed on the passages with that fingerprint."""
        if corpus in self.datasets.values():
            return str(self)
        return f"{self}; these documents are others, so it holds as far as questions about them are like those"

    def __str__(self) -> str:
        return (
            f"the guarantee of {_describe_target(self.max_error, self.confidence)}, for questions like the "
            f"{self.questions:,} of {' and '.join(self.datasets)}"
        )


def _name_settings(thresholds: Thresholds, budget: Budget) -> dict[str, object]:
    return {
        **{f"thresholds.{name}": value for name, value in asdict(thresholds).items()},
        **{f"budget.{name}": value for name, value in asdict(budget).items()},
    }


def _describe_target(max_error: float, confidence: float) -> str:
    return f"at most {100 * max_error:g} % wrong answers with {100 * confidence:g} % confidence"


class Artifact(_Strict):
    """One fit, its provenance and its quality on questions that it has not seen."""

    format: Literal[1] = 1
    name: str
    origin: Literal["published", "fitted"]
    any_model: bool = False
    """Whether it is an estimate for models without a fit of their own; its probabilities are calibrated for none."""
    backbone: str
    """The model it was fitted for, as the beginning of the model's identity."""
    retriever: str
    verifier: str
    prompts: Mapping[str, str] = Field(default_factory=dict)
    """Hash of each prompt that shaped the diagnostics and the answers; empty where they are unknown."""
    target: str
    partition: str
    seed: int | None
    contaminated: bool
    """Whether the fit or the choice saw held-out questions. Reading checks it against the questions on record."""
    made: str
    counts: Mapping[str, int] = Field(default_factory=dict)
    quality: Mapping[str, float] = Field(default_factory=dict)
    """As it was reported, for one without a `fit`."""
    note: str = ""
    score_scale: ScoreScale | None = None
    """The score scale of the corpus it was fitted on; None where it is unknown or there were several corpora."""
    answerability: Annotated[AnswerabilityFit, Field(discriminator="kind")]
    retrieval_value: FittedValue | None = None
    """None: the paper's schedule by round is used."""
    fit: FitReport | None = None
    guarantees: tuple[Guarantee, ...] = ()
    """Thresholds with a bound on the errors among answers, at most one for each target."""

    @model_validator(mode="after")
    def _check_contamination(self) -> Self:
        if self.fit is not None and not self.contaminated and self.fit.division == "hash":
            seen = select_held_out({*self.fit.fit_questions, *self.fit.selection_questions})
            if seen:
                raise PydanticCustomError(
                    "contaminated",
                    "contaminated is false, and {count} of the questions that it was fitted or chosen on are held out, "
                    "such as {example}",
                    {"count": len(seen), "example": repr(min(seen))[:60]},
                )
        return self

    @property
    def sha256(self) -> str:
        """A hash of the fit and its provenance, without guarantees, which change no probability."""
        # What was added to the format counts only where it is used, so older runs can go on.
        unused: dict[str, Any] = {"guarantees": True}
        if self.fit is None:
            unused["fit"] = True
        elif self.fit.division == "hash":
            unused["fit"] = {"division"}
        if self.answerability.kind == "logistic":
            unused["answerability"] = {"kind"}
        if not self.any_model:
            unused["any_model"] = True
        return hashlib.sha256(self.model_dump_json(exclude=unused).encode()).hexdigest()

    def find_seen(self, question_ids: Iterable[str]) -> tuple[str, ...]:
        """Return which of these questions it was fitted or chosen on, as far as it has them on record."""
        if self.fit is None:
            return ()
        known = {*self.fit.fit_questions, *self.fit.selection_questions}
        return tuple(question_id for question_id in question_ids if question_id in known)

    def find_scale(self, corpus: str) -> ScoreScale | None:
        """Return the score scale that the questions of the fit had on the corpus with this fingerprint."""
        reports = self.fit.datasets.values() if self.fit else ()
        return next((each.score_scale for each in reports if each.fingerprint == corpus), None)

    def calibration(self, score_scale: ScoreScale | None) -> Calibration:
        """Return the fitted functions, on a corpus with that score scale."""
        return Calibration(score_scale, self.answerability, self.retrieval_value or ScheduledValue())


def write_artifact(artifact: Artifact, path: Path) -> None:
    """Write an artifact through a temporary file: a kill leaves the old file or the new one."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(artifact.model_dump_json(indent=2) + "\n", encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise CalibrationError(
            f"{path} cannot be written: {error.strerror}.", remedy="Name another file with --out."
        ) from error


def shipped_artifacts() -> dict[str, Artifact]:
    """Return the artifacts that come with the package, by name."""
    folder = resources.files(__package__) / "artifacts"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".json")), key=lambda file: file.name)
    found = [Artifact.model_validate_json(file.read_text(encoding="utf-8")) for file in files]
    return {artifact.name: artifact for artifact in found}


def load_artifact(name_or_path: str) -> Artifact:
    """Load a shipped artifact by its name, or any artifact from its file."""
    shipped = shipped_artifacts()
    if name_or_path in shipped:
        return shipped[name_or_path]
    try:
        return Artifact.model_validate_json(Path(name_or_path).expanduser().read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CalibrationError(
            f"No calibration is called {name_or_path!r}.",
            remedy=f"Give a file, or one of {', '.join(shipped)}.",
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{'.'.join(str(part) for part in first['loc']) or 'the file'}: "
        remedy = "Name a file that 'beliefrag calibrate fit' wrote."
        if first["type"] == "contaminated":
            where, remedy = "", "Set contaminated to true, or fit it again."
        raise CalibrationError(f"{name_or_path} is not a calibration: {where}{first['msg']}.", remedy=remedy) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(
            f"Cannot read the calibration {name_or_path}: {error}.",
            remedy="Name a file that 'beliefrag calibrate fit' wrote, and that you may read.",
        ) from error


def count_guarantees_in_file(path: Path) -> int:
    """Count the guarantees of the calibration in a file that is about to be replaced; 0 without a file."""
    if not path.is_file():
        return 0
    try:
        return len(load_artifact(str(path.absolute())).guarantees)
    except CalibrationError:
        raise SettingsError(
            f"{path} exists and is not a calibration.", remedy="Name another file with --out."
        ) from None


def saved_artifact_path(model: str, verifier: str, documents: str) -> Path:
    """Return where the calibration of a model on these documents is kept, and found by every later question."""
    key = hashlib.sha256("\0".join((backbone(model), verifier, documents)).encode()).hexdigest()[:12]
    return config_dir() / "calibrations" / f"{name_after(model)}-{key}.json"


def name_after(model: str) -> str:
    """Return the model's name without provider, address and hash."""
    plain = backbone(model).split(":")[1].rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", plain) or "calibration"


@dataclass(frozen=True, slots=True)
class RunConditions:
    """What a run asks and searches with; `retriever` is None for one that does not say what it is."""

    model: str
    verifier: str
    prompts: Mapping[str, str]
    retriever: str | None


def conditions_of_run(run: RunRecord) -> RunConditions:
    """Return what the episodes of a recorded run asked and searched with."""
    return RunConditions(run.model, run.verifier, run.prompts, run.searched_with)


def backbone(identity: str) -> str:
    """Return the model without its address: the same model on another server is the same backbone."""
    provider, _, rest = identity.partition(":")
    if provider != "openai":
        return identity
    # Servers spell one model differently: openai/gpt-oss-120b, gpt-oss:120b, gpt-oss-120b.
    return f"openai:{rest.partition('@')[0].rpartition('/')[2].replace(':', '-').lower()}"


def find_mismatches(artifact: Artifact, here: RunConditions) -> tuple[str, ...]:
    """Return why the artifact was not fitted for this run."""
    other_model = (f"fitted for {artifact.backbone}, not {here.model}",)
    return (*(other_model * (not _is_fitted_for(artifact, here.model))), *_other_conditions(artifact, here))


def find_calibration_warnings(artifact: Artifact, here: RunConditions) -> tuple[str, ...]:
    """Return why its probabilities may be off in this run: accepted mismatches, and what is unknown."""
    if artifact.any_model:
        return ("none was fitted for this model",)
    found = []
    if not _is_fitted_for(artifact, here.model):
        found.append(f"borrowed, fitted for {artifact.backbone}")
    elif artifact.origin == "published":
        found.append("borrowed, fitted with the paper's own prompts and scale of scores")
    if artifact.contaminated:
        found.append("its fit saw questions that were held out")
    found += _other_conditions(artifact, here)
    if here.retriever is None and artifact.origin == "fitted":
        found.append(f"fitted with {artifact.retriever}, and this retriever does not say what it is")
    return tuple(found)


def _is_fitted_for(artifact: Artifact, model: str) -> bool:
    return backbone(artifact.backbone) == backbone(model)


def _other_conditions(artifact: Artifact, here: RunConditions) -> Iterator[str]:
    if artifact.verifier != here.verifier:
        yield f"fitted with the {artifact.verifier} verifier, not {here.verifier}"
    if changed := [name for name, digest in artifact.prompts.items() if here.prompts.get(name, digest) != digest]:
        yield f"fitted with other prompts ({', '.join(changed)})"
    # The paper names its retriever in words, not by an identity.
    if artifact.origin == "fitted" and here.retriever not in (None, artifact.retriever):
        yield f"fitted with the retriever {artifact.retriever}, not {here.retriever}"


def select_artifact(
    here: RunConditions,
    *,
    calibration: str | None = None,
    borrow: str | None = None,
    saved: Path | None = None,
    any_retriever: bool = False,
) -> Artifact:
    """Select the artifact to use in a run.

    `calibration` must have been fitted for all that, but for the retriever with `any_retriever`. `borrow` is used
    although it was fitted for something else. Without either it is the one `saved` for these documents, or else the
    shipped one that suits the run best: where none was fitted for its model, an estimate.
    """
    if borrow is not None:
        return load_artifact(borrow)
    if calibration is None:
        if saved is not None and saved.exists():
            return load_artifact(str(saved))
        return min(shipped_artifacts().values(), key=lambda each: _rank(each, here))
    artifact = load_artifact(calibration)
    if reasons := find_mismatches(artifact, replace(here, retriever=None) if any_retriever else here):
        raise CalibrationError(
            f"The calibration {artifact.name} is not for this run: it was {'; it was '.join(reasons)}.",
            remedy=f"Use --borrow {calibration} to use it anyway (its probabilities may be wrong), or fit one with "
            "'beliefrag calibrate fit'.",
        )
    return artifact


def _rank(artifact: Artifact, here: RunConditions) -> tuple[bool, bool, bool, int]:
    """Return how far an artifact is from a run: first by its verifier form, whose scores it weighs, then by its model.

    Estimates for any model weigh the scores of both draft forms.
    """
    reads_draft = artifact.any_model and here.verifier in DRAFT_FORMS
    reads_alike = reads_draft or artifact.verifier == here.verifier
    own = not artifact.any_model and _is_fitted_for(artifact, here.model)
    return not reads_alike, not own, not artifact.any_model, len(find_mismatches(artifact, here))


def select_guarantee(
    artifact: Artifact,
    *,
    max_error: float,
    confidence: float,
    thresholds: Thresholds,
    budget: Budget,
    prompts: Mapping[str, str],
    calibration_warnings: Sequence[str],
) -> Guarantee:
    """Select the artifact's guarantee for that target, if it holds for this policy."""
    target = _describe_target(max_error, confidence)
    command = f"beliefrag calibrate risk FILE RUN --max-error {max_error:g} --confidence {confidence:g}"
    if thresholds.decline_below:
        raise SettingsError("max_error sets thresholds.decline_below, which is set already.", remedy="Set one of them.")
    if not thresholds.abstain:
        raise SettingsError("max_error needs a policy that can abstain.", remedy="Set one or the other.")
    if calibration_warnings:
        raise CalibrationError(
            f"The calibration {artifact.name} has no guarantee here: {'; '.join(calibration_warnings)}.",
            remedy=f"Fit one with 'beliefrag calibrate auto --docs DOCS', then bound its errors: {command}",
        )
    found = next((each for each in artifact.guarantees if each.has_target(max_error, confidence)), None)
    if found is None:
        others = ", ".join(_describe_target(each.max_error, each.confidence) for each in artifact.guarantees)
        raise CalibrationError(
            f"The calibration {artifact.name} has no guarantee of {target}; it has {others or 'none'}.",
            remedy=f"{_describe_need(max_error, confidence)} Make it: {command}",
        )
    if found.threshold is None:
        raise CalibrationError(
            f"No threshold met {target} on the {found.questions:,} questions of {' and '.join(found.datasets)}.",
            remedy=f"{_describe_need(max_error, confidence)} Allow more errors, or choose again on more questions: "
            f"{command}",
        )
    if changed := "; ".join(found.differences(thresholds, budget, prompts)):
        raise CalibrationError(
            f"The guarantee of {target} was made for another policy: {changed}.",
            remedy=f"Use those settings, or make it again for these: {command}",
        )
    return found


def _describe_need(max_error: float, confidence: float) -> str:
    # Only a refusal needs the statistics: a question should not wait for their import.
    from beliefrag.calibration.risk import answers_needed  # noqa: PLC0415

    least = answers_needed(max_error, confidence)
    return f"It takes at least {least:,} held-out answers that are all right, and more where some are wrong."


def apply_guarantee(thresholds: Thresholds, guarantee: Guarantee | None) -> Thresholds:
    """Return the thresholds with that of the guarantee, if there is one."""
    return replace(thresholds, decline_below=guarantee.threshold) if guarantee else thresholds
