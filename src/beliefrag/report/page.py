"""The one writer of pages: a title and blocks, as Markdown or as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from beliefrag.report.table import Table

__all__ = ["Block", "BulletList", "CodeBlock", "Drawing", "Heading", "Page", "PageLink", "Paragraph", "Picture"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; display: block; overflow-x: auto; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.state { padding: .6rem .8rem; background: #eef4ee; }
.state.incomplete { background: #fbe9e7; font-weight: 600; }
svg, img { max-width: 60rem; width: 100%; height: auto; }
svg { max-width: 46rem; }
p { color: #555; margin: .2rem 0; }
"""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of the second level."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True, slots=True)
class BulletList:
    """A list; an empty one leaves nothing on the page."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Text that is shown as it is, such as a settings file."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG picture in a file. An HTML page holds a copy of it; a Markdown page links to it."""

    path: Path
    name: str
    """The address of the file, as seen from the page."""
    about: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG drawing that only an HTML page shows."""

    svg: str
    """From the drawing functions of this package, whose text is escaped."""


@dataclass(frozen=True, slots=True)
class PageLink:
    """A link to another page that was written in the same formats."""

    text: str
    stem: str
    """The address without its ending."""


Block = Heading | Paragraph | BulletList | CodeBlock | Table | Picture | Drawing | PageLink


@dataclass(frozen=True, slots=True)
class Page:
    """A page with a title. All its text is escaped, whoever wrote it."""

    title: str
    blocks: tuple[Block, ...]
    status: str = ""
    """What a reader must know before anything else; it comes before the title."""
    complete: bool = True
    """Whether the numbers lack nothing; the status is marked where they do."""

    def to_markdown(self) -> str:
        """Gives the page as Markdown."""
        parts = [_escape(self.status)] if self.status else []
        parts.append(f"# {_escape(self.title)}")
        parts += [part for block in self.blocks for part in _markdown(block)]
        return "\n\n".join(parts) + "\n"

    def to_html(self) -> str:
        """Gives the page as one HTML file: no script, no font and no address of another server."""
        return "\n".join(
            [
                f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                f"<style>{_STYLE}</style></head><body>",
                self.to_fragment(),
                "</body></html>\n",
            ]
        )

    def to_fragment(self) -> str:
        """Gives the page as HTML elements without a document around them, as a notebook shows it."""
        state = "state" if self.complete else "state incomplete"
        parts = [f'<p class="{state}">{escape(self.status)}</p>'] if self.status else []
        parts.append(f"<h1>{escape(self.title)}</h1>")
        parts += [part for block in self.blocks for part in _html(block)]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return self.to_fragment()


def _markdown(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"## {_escape(text)}"
        case Paragraph(text):
            yield _escape(text)
        case BulletList(items) if items:
            yield "\n".join(f"- {_escape(item)}" for item in items)
        case CodeBlock(text, language):
            yield f"```{language}\n{text.rstrip()}\n```"
        case Table() if block.rows:
            if block.caption:
                yield _escape(block.caption)
            yield block.to_markdown()
        case Picture(name=name, about=about):
            yield f"![{_escape(about)}]({name})"
        case PageLink(text, stem):
            yield f"[{_escape(text)}]({stem}.md)"


def _html(block: Block) -> Iterator[str]:
    match block:
        case Heading(text):
            yield f"<h2>{escape(text)}</h2>"
        case Paragraph(text):
            yield f"<p>{escape(text)}</p>"
        case BulletList(items) if items:
            yield f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"
        case CodeBlock(text):
            yield f"<pre>{escape(text.rstrip())}</pre>"
        case Table() if block.rows:
            if block.caption:
                yield f"<p>{escape(block.caption)}</p>"
            yield block.to_html()
        case Picture(path=path, about=about):
            content = base64.b64encode(path.read_bytes()).decode("ascii")
            yield f'<img alt="{escape(about)}" src="data:image/png;base64,{content}">'
        case Drawing(svg):
            yield svg
        case PageLink(text, stem):
            yield f'<p><a href="{escape(stem)}.html">{escape(text)}</a></p>'


def _escape(text: str) -> str:
    # Names of datasets and models are somebody else's text: they must not become links, pictures or markup.
    return re.sub(r"([\\`*\[\]])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")
