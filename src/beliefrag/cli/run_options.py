"""Options of the commands that ask many labelled questions: which questions, and how to run them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer
from pydantic import Field

from beliefrag.cli.options import OwnDocs, Yes, flag, join_paths
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.bench.questions import Dataset
    from beliefrag.bench.setup import RunSpec
    from beliefrag.settings import Settings

__all__ = ["Data", "LabelledQuestions", "NoJudge", "Out", "RunOptions"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

Data = Annotated[
    list[Path] | None,
    typer.Option(
        "--data", metavar="DIR...", help="Datasets in the common form; see 'beliefrag data'.", show_default=False
    ),
]
Out = Annotated[
    Path,
    typer.Option("--out", metavar="RUN", help="The folder of the run. An existing run is resumed.", show_default=False),
]
NoJudge = Annotated[bool, flag("--no-judge", "Leave the judge out. The same command without it judges later.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Which questions are asked, and how."""

    section: ClassVar[str] = "run"

    n: Annotated[int | None, typer.Option("--n", metavar="N", min=1, help="Questions of each dataset.")] = None
    split: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only questions of this split. Repeatable.")
    ] = None
    dry_run: Annotated[bool, flag("--dry-run", "Print the estimate, and end.")] = False
    yes: Yes = False
    replay: bool = False
    seed: int = 0
    judge_model: str | None = None
    judge_base_url: str | None = None
    noise: Annotated[float, Field(ge=0, le=1)] = 0.0
    counterfactual: Annotated[float, Field(ge=0, le=1)] = 0.0

    @property
    def names_judge(self) -> bool:
        """Whether a judge was named, other than the run's model."""
        return bool(self.judge_model or self.judge_base_url)

    def make_spec(self, settings: Settings, *, judge: bool, download: bool = True) -> RunSpec:
        """Return the specification of a run, without datasets and methods; by default download missing weights.

        Raises:
            SettingsError: A judge is named and left out.
            ModelError: Weights are missing, and the person declined the download.
        """
        from beliefrag.bench.perturbation import Injection
        from beliefrag.bench.setup import RunSpec
        from beliefrag.cli.weights import ensure_weights

        if self.names_judge and not judge:
            raise SettingsError("--no-judge leaves out the judge that was named.", remedy="Give one or the other.")
        injection = Injection(self.noise, self.counterfactual, self.seed)
        if download and not (self.replay or self.dry_run):
            for model in filter(None, (settings.model, self.judge_model)):
                ensure_weights(model, agreed=self.yes)
        return RunSpec(
            n=self.n,
            seed=self.seed,
            splits=tuple(self.split or ()),
            judge=judge,
            judge_model=self.judge_model,
            judge_base_url=self.judge_base_url,
            injection=injection,
            replay=self.replay,
            preview=self.dry_run,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledQuestions:
    """Questions with known answers: of benchmarks, or somebody's own."""

    data: Data = None
    questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own questions with answers (CSV, TSV, JSON Lines); needs --docs."),
    ] = None
    docs: OwnDocs = None

    def read(self, further: list[Path] | None) -> tuple[tuple[Path, ...], tuple[Dataset, ...]]:
        """Return the folders of benchmarks, or the dataset of own questions.

        Raises:
            SettingsError: Neither was given, or both, or questions without documents.
            DataError: The questions cannot be used.
            CorpusError: The documents cannot be used.
        """
        if (self.questions is None) == (not self.data):
            raise SettingsError(
                "Needs questions with answers.", remedy="Give either --data DIR, or --questions and --docs."
            )
        if self.questions is None:
            if self.docs:
                raise SettingsError("--docs needs --questions; --data has its own passages.", remedy="Leave one out.")
            return tuple(join_paths(self.data, further) or ()), ()
        if not self.docs:
            raise SettingsError("--questions needs documents to answer from.", remedy="Name them with --docs.")
        return (), (_own_dataset(self.questions, join_paths(self.docs, further) or []),)


def _own_dataset(questions: Path, docs: list[Path]) -> Dataset:
    from beliefrag import bench
    from beliefrag.cli.output import print_notice, show_status

    with show_status("reading documents"):
        dataset = bench.user_dataset(questions, docs)
    if skipped := dataset.card.skipped:
        print_notice(f"note: {len(skipped)} of the questions left out: {skipped[0]}.")
    return dataset
