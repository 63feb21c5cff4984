"""Explicit links of HTML, Markdown, wikis and manual pages: read, stored, and followed to the passages they lead to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from beliefrag.retrieval import RETRIEVERS, IndexWriter, PassageSource, index_paths, open_retriever
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.documents import Document, cut_document
from beliefrag.retrieval.linked.graph import NameKind
from beliefrag.retrieval.linked.linked_retriever import LinkedRetriever
from beliefrag.retrieval.linked.words import split_text
from beliefrag.retrieval.readers.text_files import find_markdown_links, slug
from beliefrag.types import Passage

Read = Callable[[Path], tuple[list[Document], list[str]]]

FILLER = "Plain words that say nothing about any of the settings and that only fill the page up to its end. " * 8


def write_manual(folder: Path) -> Path:
    """Write a manual of two pages: a chapter that names a setting, and a reference that explains it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tuning.html").write_text(
        f"""<title>Tuning</title><h1>Tuning</h1><p>{FILLER}</p>
        <h2 id="gulls">Counting gulls</h2>
        <p>The harbour master counts gulls at dawn. How often that happens is governed by
        <a href="reference.html#s-rhythm">the rhythm setting</a>, which suits most harbours.</p><p>{FILLER}</p>
        <p><a href="reference.html">Next</a> <a href="tuning.html#gulls">¶</a></p>"""
    )
    (folder / "reference.html").write_text(
        f"""<title>Reference</title><h1>Reference</h1><p>{FILLER}</p>
        <dl><dt id="s-rhythm">gull_rhythm (integer)</dt>
        <dd>Sets the pause between two rounds. It defaults to 40 minutes, can be changed at any time, and takes effect
        with the next round; smaller values wear out the binoculars of everybody who takes part in it.</dd>
        <dt id="s-boats">boat_limit (integer)</dt>
        <dd>Limits the number of boats that may lie at the quay. It defaults to 7 boats, and larger values need another
        quay, which has to be built before anybody can make use of the new value of this setting.</dd></dl>"""
    )
    return folder


def rows_by_title(index: Path) -> dict[str, list[str]]:
    rows = [row for block in Bm25Index.open(index).read_rows() for row in block]
    return {row.title: [each.links for each in rows if each.title == row.title] for row in rows}


def open_linked(index: Path) -> LinkedRetriever:
    retriever = open_retriever(RETRIEVERS.choose("linked", {}), PassageSource(index=index))
    assert isinstance(retriever, LinkedRetriever)
    return retriever


def links_from(retriever: LinkedRetriever, words: str) -> set[str]:
    """Return the titles of the passages that explicit links of the best passage for some words lead to."""
    graph, index = retriever.graph, retriever.index
    [hit] = Bm25Index.search(index, words, 1) if isinstance(index, Bm25Index) else []
    [number] = [each for each in range(len(graph)) if graph.passage_id(each) == hit.passage.id]
    titles = set()
    for name in graph.named.name[graph.named.of_passage(number)].tolist():
        homes = graph.homes(name)
        kinds = graph.home_kind[homes].tolist()
        if NameKind.TARGET in kinds:
            titles |= {each.title for each in index.get(map(graph.passage_id, graph.home_passage[homes].tolist()))}
    return titles


def test_links_change_neither_texts_nor_ids(tmp_path: Path, read: Read) -> None:
    body = f"<title>T</title><h1>One</h1><p>{FILLER}</p><h2>Two</h2><p>Some {{}} here. {FILLER}</p>"
    cut = []
    for number, words in enumerate(("words", '<a href="x.html#y" id="z">words</a>')):
        (tmp_path / str(number)).mkdir()
        path = tmp_path / str(number) / "page.html"
        path.write_text(body.format(words))
        cut.append([(each.id, each.text) for document in read(path)[0] for each in cut_document(document)])
    assert cut[0] == cut[1]


def test_a_link_leads_to_the_entry_that_its_anchor_names(tmp_path: Path) -> None:
    index_paths([write_manual(tmp_path / "manual")], tmp_path / "index")
    retriever = open_linked(tmp_path / "index")
    assert links_from(retriever, "harbour master counts gulls at dawn") == {"Reference > gull_rhythm (integer)"}


def test_the_words_of_a_link_are_a_name_of_what_it_leads_to(tmp_path: Path) -> None:
    index_paths([write_manual(tmp_path / "manual")], tmp_path / "index")
    retriever = open_linked(tmp_path / "index")
    graph = retriever.graph
    _, lengths, names = graph.find_names(split_text("rhythm setting").hashes)
    [name] = names[lengths == 2].tolist()
    [home] = graph.home_passage[graph.homes(name)].tolist()
    [passage] = retriever.index.get([graph.passage_id(home)])
    assert passage.title == "Reference > gull_rhythm (integer)"
    assert graph.home_kind[graph.homes(name)].tolist() == [NameKind.LINK_TEXT]


def test_what_a_likely_passage_links_to_is_found_though_it_shares_no_word(tmp_path: Path) -> None:
    folder = write_manual(tmp_path / "manual")
    for number in range(30):
        text = f"Harbour {number} counts its boats and masters often at dawn, as everybody who went there knows. "
        (folder / f"other-{number}.txt").write_text(text * 3)
    index_paths([folder], tmp_path / "index")
    found = open_linked(tmp_path / "index").search("How often does the harbour master count gulls at dawn?", 5)
    assert "Reference > gull_rhythm (integer)" in [hit.passage.title for hit in found]
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


def test_links_of_markdown_and_wikis_are_found() -> None:
    line = "See [the guide](guide.md#set-up) or [[Home page|start]], [[FAQ]], ![a picture](p.png) and <b>[no](link</b>."
    assert list(find_markdown_links(line)) == [
        ("guide.md#set-up", "the guide"),
        ("wiki:Home page", "start"),
        ("wiki:FAQ", "FAQ"),
    ]
    assert slug("What's new in 2.0?") == "whats-new-in-20"


@pytest.mark.parametrize("link", ["[the rota](rota.md#night-shift)", "[[rota#Night shift|the rota]]"])
def test_a_markdown_link_leads_to_the_heading_of_another_file(tmp_path: Path, link: str) -> None:
    folder = tmp_path / "handbook"
    folder.mkdir()
    (folder / "keys.md").write_text(f"# Keys\n\nThe brass keys of the boathouse hang where {link} says.\n\n{FILLER}\n")
    (folder / "rota.md").write_text(
        f"# Rota\n\n{FILLER}\n\n## Day shift\n\n{FILLER}\n\n## Night shift\n\nMira Okafor keeps watch until six in the "
        "morning, and hands over what was left with her during the night to whoever comes first on the next day.\n"
    )
    index_paths([folder], tmp_path / "index")
    assert links_from(open_linked(tmp_path / "index"), "brass keys of the boathouse") == {"Rota > Night shift"}


def test_a_manual_page_is_linked_by_its_name_and_section(tmp_path: Path) -> None:
    folder = tmp_path / "man"
    folder.mkdir()
    (folder / "ferry.8.txt").write_text(
        "NAME\n       ferry - carries cars\n\n"
        f"DESCRIPTION\n       The timetable is explained in ferry.conf(5). {FILLER}\n"
    )
    (folder / "ferry.conf.5.txt").write_text(
        f"NAME\n       ferry.conf - the timetable of the ferry\n\nOPTIONS\n       Depart=\n           {FILLER}\n"
    )
    index_paths([folder], tmp_path / "index")
    found = links_from(open_linked(tmp_path / "index"), "timetable is explained in")
    assert len(found) == 1
    assert next(iter(found)).startswith("ferry.conf.5")


def test_links_elsewhere_and_words_that_lead_everywhere_are_no_links(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    for number in range(6):
        (folder / f"page-{number}.html").write_text(
            f"""<title>Page {number}</title><p>Zebra{number} stands here. {FILLER}</p>
            <a href="page-{(number + 1) % 6}.html">onwards you go</a> <a href="https://example.org/a.html">example</a>
            <a href="/root.html">root</a> <a href="missing.html#x">missing</a>"""
        )
    index_paths([folder], tmp_path / "index")
    header = json.loads(next((tmp_path / "index").glob("names-*/arrays.json")).read_text())
    assert header["about"]["links"] == 0


def test_links_survive_a_rewrite_of_the_index_and_follow_a_change_of_the_page(tmp_path: Path) -> None:
    folder, index = write_manual(tmp_path / "manual"), tmp_path / "index"
    index_paths([folder], index)
    before = rows_by_title(index)
    with IndexWriter(index) as writer:
        writer.add([Passage(f"more-{number}", "More", f"Soon gone {number}.") for number in range(40)])
        writer.commit()
        writer.delete([f"more-{number}" for number in range(0, 40, 3)])
        assert writer.compact()
        writer.delete([f"more-{number}" for number in range(40)])
    assert rows_by_title(index) == before
    page = folder / "tuning.html"
    page.write_text(page.read_text().replace("reference.html#s-rhythm", "reference.html#s-boats"))
    index_paths([folder], index)
    links = "".join(one for each in rows_by_title(index).values() for one in each)
    assert "reference.html#s-boats" in links
    assert "reference.html#s-rhythm" not in links
    found = links_from(open_linked(index), "harbour master counts gulls at dawn")
    assert found == {"Reference > boat_limit (integer)"}, "the graph of names is made again"
