"""Where commands that ask labelled questions take them from: benchmarks, or somebody's own on their own documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options, run_options
from beliefrag.errors import SettingsError

if TYPE_CHECKING:
    from beliefrag.bench.questions import Dataset

__all__ = ["Questions", "labelled_questions"]

# What reads datasets is imported when it is needed, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

Questions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Your own questions with their answers, as CSV, TSV or JSON Lines; needs --docs.",
        rich_help_panel=run_options.WHAT,
    ),
]


def labelled_questions(
    data: list[Path] | None, questions: Path | None, docs: list[Path] | None, further: list[Path] | None
) -> tuple[tuple[Path, ...], tuple[Dataset, ...]]:
    """The folders of benchmarks, and the dataset made of own questions: one or the other.

    Raises:
        SettingsError: Neither was given, or both, or questions without documents.
        DataError: The questions cannot be used.
        CorpusError: The documents cannot be used.
    """
    if (questions is None) == (not data):
        raise SettingsError(
            "Needs questions with answers.", remedy="Give either --data DIR, or --questions and --docs."
        )
    if questions is None:
        if docs:
            raise SettingsError("--docs belongs to --questions, and --data brings its own.", remedy="Leave one out.")
        return tuple(options.join_docs(data, further) or ()), ()
    if not docs:
        raise SettingsError("--questions needs documents to answer from.", remedy="Name them with --docs.")
    return (), (_user_dataset(questions, options.join_docs(docs, further) or []),)


def _user_dataset(questions: Path, docs: list[Path]) -> Dataset:
    from beliefrag import bench
    from beliefrag.cli.output import show_status

    with show_status("reading documents"):
        return bench.user_dataset(questions, docs)
