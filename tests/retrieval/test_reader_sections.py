"""Headings and entries: the way to a section is the title of its passages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from beliefrag.retrieval.documents import Document

Read = Callable[[Path], tuple[list[Document], list[str]]]


def sentence(word: str, count: int = 6) -> str:
    """Return a few sentences of six words, all about one word."""
    return " ".join(f"The {word} is explained here, number{at}." for at in range(count))


def read_titles(read: Read, path: Path, text: str) -> dict[str, str]:
    path.write_text(text, encoding="utf-8")
    documents, complaints = read(path)
    assert complaints == []
    return {document.title: document.text for document in documents}


def test_headings_and_definitions_of_a_web_page_lead_to_its_sections(tmp_path: Path, read: Read) -> None:
    titles = read_titles(
        read,
        tmp_path / "config.html",
        f"""<html><head><title>Server setup</title></head><body><h1>Server setup</h1><p>{sentence("start")}</p>
        <h2>20.4. Memory\u00b6</h2><p>{sentence("memory")}</p>
        <dl><dt id="GUC"><code>work_mem</code> (integer)</dt><dd><p>{sentence("work")}</p></dd>
        <dt>-i</dt><dt>--interactive</dt><dd>{sentence("asking")}</dd>
        <dt>tiny</dt><dd>Says little.</dd></dl><p>{sentence("after")}</p>
        <h2>Disks</h2><p>{sentence("disk")}</p></body></html>""",
    )
    assert list(titles) == [
        "Server setup",
        "Server setup > 20.4. Memory",
        "Server setup > 20.4. Memory > work_mem (integer)",
        "Server setup > 20.4. Memory > -i, --interactive",
        "Server setup > Disks",
    ]
    assert "work is explained" in titles["Server setup > 20.4. Memory > work_mem (integer)"]
    assert "tiny\n\nSays little." in titles["Server setup > 20.4. Memory > -i, --interactive"]
    assert "after is explained" in titles["Server setup > 20.4. Memory"]


def test_headings_of_markdown_lead_to_its_sections_and_code_has_none(tmp_path: Path, read: Read) -> None:
    titles = read_titles(
        read,
        tmp_path / "leave.md",
        f"# Leave\n\n{sentence('leave')}\n\n## Sick leave\n\n{sentence('sick')}\n\n```\n# no heading\n```\n\n"
        f"Parents\n-------\n{sentence('parent')}\n\n### Fathers\n\n{sentence('father')}\n",
    )
    assert list(titles) == ["Leave", "Leave > Sick leave", "Leave > Parents", "Leave > Parents > Fathers"]
    assert "# no heading" in titles["Leave > Sick leave"]


def test_a_manual_page_in_plain_text_is_cut_at_headings_and_entries(tmp_path: Path, read: Read) -> None:
    indented = sentence("option", 5).replace(". ", ".\n           ")
    titles = read_titles(
        read,
        tmp_path / "tool.service.8.txt",
        f"TOOL(8)          tool          TOOL(8)\n\nNAME\n       tool - does much. {sentence('name')}\n\n"
        f"OPTIONS\n       {sentence('all')}\n\n       --dry-run\n           {indented}\n\n       RestartSec=\n"
        f"           {indented}\n\nFILES\n       {sentence('file')}\n",
    )
    assert list(titles)[-5:] == [
        "tool.service.8 > NAME",
        "tool.service.8 > OPTIONS",
        "tool.service.8 > OPTIONS > --dry-run",
        "tool.service.8 > OPTIONS > RestartSec=",
        "tool.service.8 > FILES",
    ]


def test_a_text_without_such_a_layout_stays_one_document(tmp_path: Path, read: Read) -> None:
    text = f"NOTE\n{sentence('note')}\n\n" * 10
    assert read_titles(read, tmp_path / "notes.txt", text) == {"notes": text.strip()}


def test_nothing_is_lost_between_sections(tmp_path: Path, read: Read) -> None:
    words = [f"word{at}" for at in range(400)]
    body = "".join(
        f"<h{2 + at % 4}>head{at}</h{2 + at % 4}><p>{' '.join(words[at : at + 7])}</p><dl><dt>term{at}</dt></dl>"
        for at in range(0, 400, 7)
    )
    titles = read_titles(read, tmp_path / "page.html", f"<title>Page</title><body>{body}</body>")
    held = " ".join([*titles, *titles.values()]).split()
    assert set(words) <= set(held)
    assert {f"head{at}" for at in range(0, 400, 7)} <= set(held)
    assert {f"term{at}" for at in range(0, 400, 7)} <= {word.strip(",") for word in held}
