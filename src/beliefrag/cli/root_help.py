"""The text of `beliefrag --help`.

It is written here, and not made from the commands, because that would import all of them: a test compares the two.
"""

from __future__ import annotations

import shutil
import textwrap

__all__ = ["ABOUT", "COMMANDS", "OPTIONS", "format_root_help"]

ABOUT = """\
Answer questions from documents, say how sure the answer is, and decline when it is not in them.

It searches only as much as it needs, and says why it stopped. Try 'beliefrag demo' first. With documents of your
own: beliefrag ask "Who approves travel?" --docs handbook/"""

OPTIONS = {
    "--version": "Show the version and end.",
    "--debug": "Say more, with tracebacks, on standard error.",
    "--help, -h": "Show this message and exit.",
}

COMMANDS = {
    "ask": "Answer a question from documents, searching only as much as it needs.",
    "app": "Ask questions on a page in the browser, with the quotes that an answer rests on opened in their documents.",
    "demo": "Answer a question about a small bundled corpus, with a model on this machine.",
    "index": "Make an index of documents, so that many questions can use it. Run it again to take in what has changed.",
    "data": "Import, list, show, check and download benchmark data.",
    "bench": "Run methods on datasets, report their numbers and compare them.",
    "calibrate": "Fit and check calibrations: probabilities that mean what they say, for a model and documents.",
    "tune": "Choose thresholds from a run's recorded states: the best answers for a token budget, or the cheapest good "
    "ones.",
    "study": "Make one study, or all: run what it needs, and write its numbers, its figure and a page.",
    "serve": "Answer other programs over the network.",
    "view": "Look at a run or a trace in a browser: numbers, episodes, and each decision with what it rests on.",
    "cache": "Count, export, import and prune recorded model replies.",
    "model": "List model providers, and list, download and remove the weights of embedded models.",
    "doctor": "Check everything that an answer depends on, and say how to repair what does not work.",
    "config": "Show the settings in force, and list what can be chosen by name.",
    "prompt": "List and show the prompts: the words that models are asked with.",
}
"""What each command does, in the order of the help: from the first question to the details."""

_WIDEST = 100


def format_root_help() -> str:
    """Gives the help of the whole program, as wide as the terminal but not wider than is easy to read."""
    width = max(40, min(_WIDEST, shutil.get_terminal_size().columns))
    about = "\n\n".join(textwrap.fill(" ".join(part.split()), width) for part in ABOUT.split("\n\n"))
    options, commands = _format_rows(OPTIONS, width), _format_rows(COMMANDS, width)
    more = textwrap.fill("'beliefrag COMMAND --help' shows the options of a command, with an example.", width)
    usage = "Usage: beliefrag [OPTIONS] COMMAND [ARGS]..."
    return "\n\n".join((usage, about, f"Options:\n{options}", f"Commands:\n{commands}", more)) + "\n"


def _format_rows(rows: dict[str, str], width: int) -> str:
    column = 2 + max(map(len, rows)) + 2
    indent = " " * column
    return "\n".join(
        textwrap.fill(words, width, initial_indent=f"  {name}".ljust(column), subsequent_indent=indent)
        for name, words in rows.items()
    )
