"""`beliefrag data`: import benchmark files into one common form, and show what is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import flag

if TYPE_CHECKING:
    from beliefrag.bench.questions import Card, CardFile

__all__ = ["app"]

# Commands import what they need when they run, so that the help does not wait for it.
# ruff: noqa: PLC0415

app = typer.Typer(help="Import published benchmarks, and show datasets.", no_args_is_help=True)


@app.command("import")
def import_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A format of 'beliefrag data list'.", show_default=False)],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="The published files; without any, they are downloaded."),
    ] = None,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to make.", show_default=False)],
    corpus: Annotated[
        Path | None,
        typer.Option("--corpus", metavar="FILE|DIR", help="Further passages (JSON Lines with title and text)."),
    ] = None,
    skip_broken: Annotated[
        bool, flag("--skip-broken", "Leave out invalid records, and list them in the card.")
    ] = False,
) -> None:
    """Convert published files to the common form, with a card of counts, licence, source and hashes.

    Example: beliefrag data import hotpotqa hotpot_dev_distractor_v1.json --out data/hotpotqa
    """
    from beliefrag.bench.datasets import fetch_published_files, import_dataset
    from beliefrag.cli.output import print_notice
    from beliefrag.paths import cache_dir

    if not files:
        files = list(fetch_published_files(name, cache_dir() / "data" / name, on_file=print_notice))
    _print(import_dataset(name, files, out, corpus=corpus, skip_broken=skip_broken), out)


@app.command("list")
def list_(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="A dataset, or a folder of datasets; without it, the formats are listed.",
            envvar="BELIEFRAG_DATA",
        ),
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print the card of a dataset as one JSON object.")] = False,
) -> None:
    """Check and list the datasets in a folder, show the card of one, or list the formats that can be imported.

    Exits with 1 if a dataset is invalid.

    Example: beliefrag data list data
    """
    from beliefrag.bench.datasets import all_formats, is_dataset, load_dataset
    from beliefrag.cli.output import FAILED, print_table
    from beliefrag.runs.run_errors import DataError

    if folder is None:
        rows = [
            (known.name, known.licence, "yes" if known.hub else "no", known.source, known.expects)
            for known in all_formats()
        ]
        print_table(("name", "licence", "download", "source", "files"), rows)
        return
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder.", remedy="Name a folder of datasets, or unset BELIEFRAG_DATA.")
    if is_dataset(folder):
        card = load_dataset(folder).card
        if as_json:
            typer.echo(card.model_dump_json(indent=2))
        else:
            _print(card, folder)
        return
    rows, invalid = [], False
    for path in sorted(folder.iterdir()):
        if not is_dataset(path):
            continue
        try:
            card = load_dataset(path).card
            passages = f"{card.passages}" if card.passages else "0: nothing to search"
            rows.append((card.name, f"{card.questions}", passages, _splits(card), card.licence or "-"))
        except DataError as error:
            invalid = True
            rows.append((path.name, "invalid", "-", "-", str(error)))
    print_table(("name", "questions", "passages", "splits", "licence"), rows)
    if invalid:
        raise typer.Exit(FAILED)


def _print(card: Card, folder: Path) -> None:
    from beliefrag.cli.output import safe_line

    rows = [("dataset", str(folder)), ("title", card.title or card.name), ("licence", card.licence or "not known")]
    rows += [("source", card.source or "not known"), ("questions", f"{card.questions:,}"), ("splits", _splits(card))]
    rows += [("support", f"known for {card.with_supporting:,}"), ("passages", f"{card.passages:,}")]
    rows += [("note", note) for note in card.notes]
    rows += [("read", f"{_describe_file(file)} {file.sha256}") for file in card.inputs]
    rows += [("file", f"{file.name} {file.sha256}") for file in card.outputs]
    rows += [("skipped", f"{len(card.skipped):,}")] if card.skipped else []
    for heading, value in rows:
        typer.echo(f"{heading:<12} {safe_line(value)}")
    for problem in card.skipped:
        typer.echo(f"  {safe_line(problem)}")


def _describe_file(file: CardFile) -> str:
    return file.name if file.files == 1 else f"{file.name} ({file.files:,} files)"


def _splits(card: Card) -> str:
    return ", ".join(f"{name or '(unnamed)'} {count}" for name, count in card.splits.items())
