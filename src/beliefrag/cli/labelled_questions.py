"""Where commands that ask labelled questions take them from: benchmarks, or somebody's own on their own documents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, run_options
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.bench.questions import Dataset

__all__ = ["QuestionOptions"]

# What reads datasets is imported when it is needed, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionOptions:
    """Which labelled questions are asked: those of benchmarks, or somebody's own."""

    data: run_options.Data = None
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Your own questions with their answers, as CSV, TSV or JSON Lines; needs --docs.",
            rich_help_panel=run_options.WHAT,
        ),
    ] = None
    docs: options.Docs = None

    def read(self, further: list[Path] | None) -> tuple[tuple[Path, ...], tuple[Dataset, ...]]:
        """Reads the folders of benchmarks, or makes the dataset of own questions: one or the other.

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
                raise SettingsError(
                    "--docs belongs to --questions, and --data brings its own.", remedy="Leave one out."
                )
            return tuple(options.join_docs(self.data, further) or ()), ()
        if not self.docs:
            raise SettingsError("--questions needs documents to answer from.", remedy="Name them with --docs.")
        return (), (_user_dataset(self.questions, options.join_docs(self.docs, further) or []),)


def _user_dataset(questions: Path, docs: list[Path]) -> Dataset:
    from beliefrag import bench
    from beliefrag.cli.output import print_notice, show_status

    with show_status("reading documents"):
        dataset = bench.user_dataset(questions, docs)
    if left_out := dataset.card.skipped:
        number = f"{len(left_out)} questions are" if len(left_out) > 1 else "1 question is"
        print_notice(f"note: {number} left out: {left_out[0]}.")
    return dataset
