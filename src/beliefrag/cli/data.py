"""`beliefrag data`: import benchmark files into one common form, and show what is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli.options import argument, option
from beliefrag.cli.output import FAILED, print_facts, print_notice, print_table

if TYPE_CHECKING:
    from beliefrag.bench.questions import Card

app = typer.Typer(help="Import published benchmarks, and show datasets.", no_args_is_help=True)


@app.command("import")
def import_(
    name: Annotated[str, argument("NAME", "A format of 'beliefrag data list'.")],
    files: Annotated[list[Path] | None, argument("FILE", "The published files; by default downloaded.")] = None,
    *,
    out: Annotated[Path, option("DIR", "The folder to make.", "--out")],
    corpus: Annotated[Path | None, option("FILE|DIR", "Further passages, as JSON Lines.", "--corpus")] = None,
) -> None:
    """Convert published files to the common form, with a card of counts, licence, source and hashes.

    Example: beliefrag data import hotpotqa hotpot_dev_distractor_v1.json --out data/hotpotqa
    """
    from beliefrag.bench.datasets import fetch_published_files, import_dataset
    from beliefrag.settings import cache_dir

    if not files:
        files = list(fetch_published_files(name, cache_dir() / "data" / name, on_file=print_notice))
    _print_card(import_dataset(name, files, out, corpus=corpus), out)


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
) -> None:
    """Check and list the datasets in a folder, show the card of one, or list the formats that can be imported.

    Example: beliefrag data list data
    """
    from beliefrag.bench.datasets import all_formats, is_dataset, load_dataset
    from beliefrag.runs.run_errors import DataError

    if folder is None:
        formats = [
            (each.name, each.licence, "yes" if each.hub else "no", each.source, each.expects) for each in all_formats()
        ]
        print_table(("name", "licence", "download", "source", "files"), formats)
        return
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder.", remedy="Name a folder of datasets, or unset BELIEFRAG_DATA.")
    if is_dataset(folder):
        _print_card(load_dataset(folder).card, folder)
        return
    rows: list[tuple[str, ...]] = []
    invalid = False
    for path in filter(is_dataset, sorted(folder.iterdir())):
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


def _print_card(card: Card, folder: Path) -> None:
    facts = [("dataset", str(folder)), ("title", card.title or card.name), ("licence", card.licence or "not known")]
    facts += [("source", card.source or "not known"), ("questions", f"{card.questions:,}"), ("splits", _splits(card))]
    facts += [("support", f"known for {card.with_supporting:,}"), ("passages", f"{card.passages:,}")]
    facts += [("note", note) for note in card.notes]
    facts += [("read", f"{file.name} {file.sha256}") for file in card.inputs]
    print_facts([*facts, *(("file", f"{file.name} {file.sha256}") for file in card.outputs)])


def _splits(card: Card) -> str:
    return ", ".join(f"{name or '(unnamed)'} {count}" for name, count in card.splits.items())
