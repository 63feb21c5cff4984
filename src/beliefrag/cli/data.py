"""`beliefrag data`: benchmark files in, one common form out, and a look at what is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beliefrag.cli import options
from beliefrag.cli.command_group import CommandGroup

if TYPE_CHECKING:
    from beliefrag.bench.questions import Card, CardFile

__all__ = ["app"]

# Each command imports what it needs itself, so that `beliefrag --help` does not wait for any of it.
# ruff: noqa: PLC0415

app = CommandGroup(help="Import, list, show, check and download benchmark data.", no_args_is_help=True)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="A format from 'beliefrag data list'.", show_default=False)]
_Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to make.", show_default=False)]
_Corpus = Annotated[
    Path | None,
    typer.Option(
        "--corpus",
        metavar="FILE|DIR",
        help="Further passages to search (JSON Lines with title and text), for benchmarks that bring none.",
    ),
]
_SkipBroken = Annotated[
    bool,
    typer.Option("--skip-broken", metavar="", help="Leave out records that cannot be read, and list them in the card."),
]
_Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.")]


@app.command("import")
def import_(
    name: _Name,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The published files.", show_default=False)],
    out: _Out,
    *,
    corpus: _Corpus = None,
    skip_broken: _SkipBroken = False,
    debug: options.Debug = False,
) -> None:
    """Turn published files into the common form, with a card that has counts, licence, source and hashes.

    Example: beliefrag data import hotpotqa hotpot_dev_distractor_v1.json --out data/hotpotqa
    """
    from beliefrag.bench.datasets import import_dataset

    _print(import_dataset(name, files, out, corpus=corpus, skip_broken=skip_broken), out)


@app.command("list")
def list_(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", help="A folder of datasets; without it, the formats are listed.", envvar="BELIEFRAG_DATA"
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """List the datasets in a folder, or the published formats that can be imported."""
    from beliefrag.bench.datasets import all_formats, is_dataset, load_dataset
    from beliefrag.cli.output import print_table
    from beliefrag.runs.run_errors import DataError

    if folder is None:
        rows = [
            (known.name, known.licence, "yes" if known.hub else "no", known.source, known.expects)
            for known in all_formats()
        ]
        print_table(("name", "licence", "get", "source", "files"), rows)
        return
    if not folder.is_dir():
        raise DataError(f"{folder} is no folder.", remedy="Name a folder of datasets, or unset BELIEFRAG_DATA.")
    found = [load_dataset(path).card for path in sorted(folder.iterdir()) if is_dataset(path)]
    print_table(
        ("name", "questions", "passages", "splits", "licence"),
        [(card.name, f"{card.questions}", f"{card.passages}", _splits(card), card.licence or "-") for card in found],
    )


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a dataset.", show_default=False)],
    as_json: _Json = False,
    debug: options.Debug = False,
) -> None:
    """Show the card of a dataset: what is in it, whose it is, and the hashes of its files."""
    from beliefrag.bench.datasets import load_dataset

    card = load_dataset(folder).card
    if as_json:
        typer.echo(card.model_dump_json(indent=2))
    else:
        _print(card, folder)


@app.command()
def check(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="The folders of datasets.", show_default=False)],
    debug: options.Debug = False,
) -> None:
    """Read datasets whole: every line, ids, supporting passages and hashes. Exits with 1 if one is not in order."""
    from beliefrag.bench.datasets import load_dataset
    from beliefrag.cli.exit_codes import FAILED
    from beliefrag.cli.output import print_table
    from beliefrag.runs.run_errors import DataError

    rows = []
    for folder in folders:
        try:
            card = load_dataset(folder).card
        except DataError as error:
            rows.append(("wrong", str(folder), str(error)))
        else:
            found = f"{card.questions} questions, {card.with_supporting} of them with known support"
            if card.passages:
                rows.append(("ok", str(folder), f"{found}, {card.passages} passages"))
            else:
                rows.append(("warning", str(folder), f"{found}, no passages: there is nothing to search"))
    styles = {"ok": "green", "warning": "yellow"}
    print_table(("state", "dataset", "finding"), rows, style=lambda state: styles.get(state, "red"))
    if any(state == "wrong" for state, _, _ in rows):
        raise typer.Exit(FAILED)


@app.command()
def get(
    name: _Name,
    out: _Out,
    corpus: _Corpus = None,
    skip_broken: _SkipBroken = False,
    debug: options.Debug = False,
) -> None:
    """Download published files from the Hugging Face hub into the cache folder, and import them.

    Example: beliefrag data get musique --out data/musique
    """
    from beliefrag.bench.datasets import fetch_published_files, import_dataset
    from beliefrag.cli.output import print_notice
    from beliefrag.paths import cache_dir

    files = fetch_published_files(name, cache_dir() / "data" / name, on_file=print_notice)
    _print(import_dataset(name, files, out, corpus=corpus, skip_broken=skip_broken), out)


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
