"""What a page is made of, and its two forms: Markdown and one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from beliefrag.report.html import html_document, html_table
from beliefrag.report.markdown import markdown_table

__all__ = ["Block", "Heading", "Items", "Link", "Picture", "Rows", "Words", "as_html", "as_markdown"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the second order."""

    text: str


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    each: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """A table of text."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a file; an HTML page holds it itself."""

    path: Path
    name: str
    """How a page beside which it lies refers to it."""
    about: str


@dataclass(frozen=True, slots=True)
class Link:
    """The way to another page, whose ending is that of this one."""

    text: str
    stem: str


Block = Heading | Words | Items | Rows | Picture | Link


def as_markdown(title: str, blocks: Iterable[Block]) -> str:
    """The page as Markdown."""
    parts = [f"# {_marked(title)}", *(part for block in blocks for part in _markdown(block))]
    return "\n\n".join(parts) + "\n"


def as_html(title: str, blocks: Iterable[Block]) -> str:
    """The page as HTML, pictures inside."""
    body = [f"<h1>{escape(title)}</h1>", *(part for block in blocks for part in _html(block))]
    return html_document(title, body)


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"## {_marked(text)}"
        case Words(text):
            yield _marked(text)
        case Items(each) if each:
            yield "\n".join(f"- {_marked(item)}" for item in each)
        case Rows(headings, rows) if rows:
            yield "\n".join(markdown_table(headings, rows))
        case Picture(name=name, about=about):
            yield f"![{_marked(about)}]({name})"
        case Link(text, stem):
            yield f"[{_marked(text)}]({stem}.md)"


def _html(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"<h2>{escape(text)}</h2>"
        case Words(text):
            yield f"<p>{escape(text)}</p>"
        case Items(each) if each:
            yield f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in each)}</ul>"
        case Rows(headings, rows) if rows:
            yield html_table(headings, rows)
        case Picture(path=path, about=about):
            content = base64.b64encode(path.read_bytes()).decode("ascii")
            yield f'<img alt="{escape(about)}" src="data:image/png;base64,{content}">'
        case Link(text, stem):
            yield f'<p><a href="{escape(stem)}.html">{escape(text)}</a></p>'


def _marked(text: str) -> str:
    # Names of datasets and models are somebody else's text: they must not become links, pictures or markup.
    return re.sub(r"([\\`*\[\]])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")
