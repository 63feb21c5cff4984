"""A calibration for one's own model and documents in one call: questions are made, asked, fitted and checked.

`beliefrag.calibrate` exports these names; `beliefrag calibrate auto` is the command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beliefrag import bench
from beliefrag.bench.benchmark import RunProgress, format_duration, format_usage, run_to_end
from beliefrag.bench.made_questions import (
    CALLS_PER_QUESTION,
    TOKENS_PER_CALL,
    MadeQuestions,
    QuestionSeed,
    draw_seeds,
    make_dataset,
    make_questions,
)
from beliefrag.bench.questions import Card, Dataset, Gold, LabelledQuestion
from beliefrag.bench.setup import collection_spec
from beliefrag.calibration import Artifact
from beliefrag.calibration.artifact import write_artifact
from beliefrag.calibration.collection import read_collection
from beliefrag.calibration.fit_artifact import fit_artifact
from beliefrag.calibration.selection import count_guarantees_in_file
from beliefrag.engine.assembly import open_model
from beliefrag.errors import SettingsError
from beliefrag.models.providers import use_server_model
from beliefrag.paths import cache_dir
from beliefrag.prompts import Prompts
from beliefrag.report import calibration_tables
from beliefrag.report.table import Table
from beliefrag.retrieval import docs_index
from beliefrag.runs.partitions import Partition, partition
from beliefrag.runs.states import Label
from beliefrag.settings import Settings, load_settings
from beliefrag.types import Passage, Question, Usage

__all__ = ["AutoCalibration", "AutoPlan", "auto"]

_NAME = "made_questions"
_FEWEST_HELD_OUT = 20
_LABEL: Label = "f1"
"""What says whether an answer is right. The model must not judge its own answers to questions of its own."""


_JUDGED = {"lean": ("uncertainty",), "beliefrag": ("support", "conflict", "uncertainty", "gap")}
"""The diagnostics that a model gives, by method. Those that compare words are left out of the fit: a made question has
words of its passage, so they tell an answerable one at once, and people's questions not so."""


@dataclass(frozen=True, slots=True)
class AutoPlan:
    """An estimate of what a calibration will take."""

    passages: int
    questions: int
    making: Usage
    asking: Usage | None
    """None where nobody knows what a part of it costs."""
    seconds: float
    """Of the asking; the making comes before it."""

    def __str__(self) -> str:
        asking = f"{format_usage(self.asking)}, {format_duration(self.seconds)}" if self.asking else "an unknown cost"
        return (
            f"{self.questions:,} questions are made from {self.passages:,} passages and asked, about "
            f"{format_usage(self.making)} to make them, and {asking} to ask them; less where the cache has replies"
        )


@dataclass(frozen=True)
class AutoCalibration:
    """A calibration from made questions."""

    artifact: Artifact
    path: Path
    made: MadeQuestions
    folder: Path
    """Holds the questions and the run with the recorded states."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before trusting it."""
        held_out = sum(partition(each.id) is Partition.XHOLD for each in self.made.questions)
        few = (f"only {held_out} held-out questions say how good it is: ask for more with -n",)
        fitted = self.artifact.fit.warnings if self.artifact.fit else ()
        return (*(few if held_out < _FEWEST_HELD_OUT else ()), *fitted)

    @property
    def counts(self) -> dict[str, int]:
        """How many questions there are of each kind."""
        return dict(Counter(each.kind for each in self.made.questions))

    @property
    def tables(self) -> tuple[Table, ...]:
        """What it was fitted on, how good it is on held-out questions, and its coefficients."""
        return calibration_tables.artifact_tables(self.artifact)

    def _repr_html_(self) -> str:
        return "\n".join(table._repr_html_() for table in self.tables)


def auto(
    docs: str | Path | Sequence[str | Path],
    *,
    out: str | Path,
    n: int = 120,
    method: str | None = None,
    searches: bool = True,
    name: str | None = None,
    seed: int = 0,
    settings: Settings | None = None,
    concurrency: int | None = None,
    confirm: Callable[[AutoPlan], bool] | None = None,
    progress: Callable[[int, int], object] | None = None,
    run_progress: Callable[[RunProgress], object] | None = None,
) -> AutoCalibration | None:
    """Calibrate a model on questions that it makes from one's own documents. This asks the model.

    Questions that need one passage, questions that need two, and questions whose passage is taken out are made, checked
    and asked. The fit is made on one part of them, chosen on another, and its quality is measured on the rest. A call
    with the same arguments goes on where one was ended, if replies are cached.

    Args:
        docs: Files or folders.
        out: The file of the calibration. The questions and the states go into a folder beside it.
        n: How many questions to make.
        method: The method to calibrate, beliefrag or lean; by default that of the settings.
        searches: For lean: make each move where the first answer is unsure, so that it is fitted what they are worth.
        name: The name of the calibration; by default that of the model.
        seed: Another seed draws other passages.
        settings: Model, budget and the rest; by default those of the settings file and the environment.
        concurrency: How many calls are made at a time.
        confirm: Called with what is ahead; if it says no, nothing is asked and the result is None.
        progress: Called with how many questions are made, and how many are wanted.
        run_progress: Called while the questions are asked.

    Raises:
        DataError: The documents have too little text, or no question passed the checks.
        SettingsError: The file exists and is no calibration, its folder cannot be made, or the method has none.
        BeliefRAGError: The model cannot be asked.
    """
    chosen = settings or use_server_model(load_settings({}).settings)
    if n < 10:
        raise SettingsError(f"{n} questions are too few to fit anything on.", remedy="Make at least 10.")
    path = Path(out)
    count_guarantees_in_file(path)
    folder = path.with_name(f"{path.stem}.questions")
    used = (method or chosen.method).partition(":")[0]
    spec = collection_spec(bench.RunSpec(judge=False), method=used, searches=searches)
    paths = [Path(docs)] if isinstance(docs, str | Path) else [Path(each) for each in docs]
    index, _ = docs_index(paths, cache_dir())
    passages = index.first(len(index))
    seeds = draw_seeds(passages, n, seed=seed)
    plan = _plan(seeds, passages, n, spec, settings=chosen, folder=folder)
    if confirm is not None and not confirm(plan):
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"The folder {folder} for the questions cannot be made: {error.strerror}.", remedy="Name another --out."
        ) from None
    made = run_to_end(_make(seeds, n, chosen, concurrency or chosen.concurrency, progress))
    dataset = make_dataset(_NAME, made.questions, passages)
    lines = "".join(f"{each.record()}\n" for each in made.questions)
    (folder / "questions.jsonl").write_text(lines, encoding="utf-8")
    bench.run(
        replace(spec, datasets=(dataset,)),
        out=folder / "states",
        settings=chosen,
        concurrency=concurrency,
        progress=run_progress,
    )
    artifact = fit_artifact(read_collection([folder / "states"]), _LABEL, name=name, diagnostics=_JUDGED[used])
    write_artifact(artifact, path)
    return AutoCalibration(artifact, path, made, folder)


def _plan(
    seeds: Sequence[QuestionSeed],
    passages: Sequence[Passage],
    n: int,
    spec: bench.RunSpec,
    *,
    settings: Settings,
    folder: Path,
) -> AutoPlan:
    # From few passages there are fewer questions to make.
    n = min(n, len(seeds))
    # What asking costs depends on how many questions there are, not on their words.
    placeholders = tuple(
        LabelledQuestion(Question(each.passages[0].text[:80], f"stand_in_{number}"), Gold(("unknown",)))
        for number, each in enumerate(seeds[:n])
    )
    dataset = Dataset(_NAME, placeholders, tuple(passages), Card(name=_NAME))
    planned = replace(spec, datasets=(dataset,), preview=True)
    ahead = bench.preview(planned, out=folder / "planned", settings=settings).plan.estimate
    calls = CALLS_PER_QUESTION * n
    making = Usage(calls=calls, tokens_in=calls * TOKENS_PER_CALL, tokens_out=calls * 20)
    return AutoPlan(len(passages), n, making, None if ahead.unknown else ahead.methods, ahead.seconds)


async def _make(
    seeds: Sequence[QuestionSeed],
    n: int,
    settings: Settings,
    at_once: int,
    progress: Callable[[int, int], object] | None,
) -> MadeQuestions:
    model = open_model(settings)
    try:
        return await make_questions(model, Prompts.load(settings.prompts), seeds, n, at_once=at_once, progress=progress)
    finally:
        await model.aclose()
