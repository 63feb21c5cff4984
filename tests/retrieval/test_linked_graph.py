"""The graph of names: words, names, mentions and links of small corpora worked out by hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from beliefrag.errors import CorpusError
from beliefrag.retrieval import RETRIEVERS, IndexWriter, PassageSource, open_retriever
from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.linked.graph import Links, NameGraph, NameKind, keep_longest, links_among, names_in_question
from beliefrag.retrieval.linked.linked_retriever import FORMAT, LinkedRetriever, graph_in_memory
from beliefrag.retrieval.linked.names import names_of
from beliefrag.retrieval.linked.ranking import FEATURES, RERANK_FEATURES, Rerank, read_question
from beliefrag.retrieval.linked.words import split_passages
from beliefrag.types import Passage, Provenance

QUESTION = "Where did the engineer who built the lighthouse at Cape Bruna study?"


def open_linked(passages: list[Passage] | None = None, index: Path | None = None, options: str = "") -> LinkedRetriever:
    retriever = open_retriever(RETRIEVERS.choose(f"linked{options}", {}), PassageSource(passages=passages, index=index))
    assert isinstance(retriever, LinkedRetriever)
    return retriever


def filler(count: int = 60) -> list[Passage]:
    return [
        Passage(f"f{n}", f"Entry {n}", f"Plain text number {n} about item{n} and other things.") for n in range(count)
    ]


def results(
    retriever: LinkedRetriever, query: str = QUESTION, k: int = 8
) -> list[tuple[str, float, Provenance | None]]:
    return [(hit.passage.id, hit.score, hit.provenance) for hit in retriever.search(query, k)]


def words_of(title: str, text: str) -> list[str]:
    tokens = split_passages([(title, text)])
    return [tokens.text[a:b] for a, b in zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)]


def test_words_are_runs_of_letters_and_digits_and_sentences_end_before_capitals() -> None:
    assert words_of("A title", "He met Dr. Who in St. Ives. It rained; 3.5 mm fell! (Really?)") == [
        "A", "title", "\x1e", "He", "met", "Dr", "Who", "in", "St", "Ives", ".", "It", "rained", "3", "5", "mm", "fell",
        "!", "Really", "\x1d",
    ]  # fmt: skip


def test_each_character_of_a_script_without_spaces_is_a_word() -> None:
    assert words_of("", "東京は大きい。北京 city") == [
        "\x1e", "東", "京", "は", "大", "き", "い", "。", "北", "京", "city", "\x1d",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("title", "text", "names"),
    [
        ("Mercury (planet)", "Mercury is a planet.", {"Mercury (planet)": "TITLE", "Mercury": "PLAIN_TITLE"}),
        ("Springfield, Ohio", "A city.", {"Springfield": "SHORT_TITLE"}),
        ("Robert Zimmerman", "Robert Allen Zimmerman is a singer.", {"Robert Allen Zimmerman": "SUBJECT"}),
        ("World Health Organization", "The organization (WHO) has an office.", {"WHO": "ACRONYM"}),
        ("handbook.md > 2.1 Leave", "Text.", {"handbook": "SHORT_TITLE", "Leave": "HEADING"}),
        ("tar", "--dry-run\n  Changes nothing.", {"--dry-run": "TERM"}),
        (
            "git-rebase(1) > OPTIONS > -i, --interactive",
            "Makes a list.",
            {"git-rebase": "SHORT_TITLE", "-i": "ENTRY", "--interactive": "ENTRY"},
        ),
        ("Memory > 20.4 work_mem (integer)", "Sets it.", {"work_mem": "HEADING"}),
        ("ssh_config.5", "A file.", {"ssh_config": "PLAIN_TITLE"}),
        *(
            ("Page", f"Some words.\n{line} is explained here.", {line.rstrip("="): "TERM"})
            for line in ("RestartSec=", "/etc/ssh/sshd_config", "AB-4411", "max_wal_size", "core.editor")
        ),
    ],
)
def test_names_of_a_passage(title: str, text: str, names: dict[str, str]) -> None:
    assert {(name, NameKind[kind]) for name, kind in names.items()} <= set(names_of(title, text))


def test_of_overlapping_names_the_longest_counts_then_the_first() -> None:
    starts, lengths = np.array([0, 1, 2, 4, 5]), np.array([2, 3, 1, 2, 2])
    assert keep_longest(starts, lengths, 8).tolist() == [1, 3]


def make_graph(*passages: Passage) -> NameGraph:
    plain = [Passage(f"f{n}", f"Entry {n}", f"Plain text number {n} about item{n}.") for n in range(600)]
    return graph_in_memory(Bm25Index.in_memory([*passages, *plain]))


def targets(graph: NameGraph, passage: str) -> set[str]:
    """Return the passages whose names a passage mentions."""
    names = graph.named.name[graph.named.of_passage(number(graph, passage))].tolist()
    return {graph.passage_id(home) for name in names for home in graph.home_passage[graph.homes(name)].tolist()}


@pytest.fixture
def graph(shelf: list[Passage]) -> NameGraph:
    return graph_in_memory(Bm25Index.in_memory([*shelf, *filler()]))


def number(graph: NameGraph, identifier: str) -> int:
    return next(at for at in range(len(graph)) if graph.passage_id(at) == identifier)


def test_features_of_a_hand_worked_case(shelf: list[Passage]) -> None:
    index = Bm25Index.in_memory([*shelf, *filler()])
    graph = graph_in_memory(index)
    retriever = LinkedRetriever(index, graph, open_linked(shelf).ranker)
    ranking = retriever.rank("Ada Quill bridges")
    assert ranking is not None
    rows = dict(zip((graph.passage_id(at) for at in ranking.passages), ranking.features, strict=True))
    column = {name: at for at, name in enumerate(FEATURES)}
    quill, lighthouse = rows["d1"], rows["d0"]
    assert quill[column["covered"]] == pytest.approx(1.0)
    assert quill[column["title_in_question"]] == pytest.approx(1.0)
    assert quill[column["search_rank"]] == 0.0
    assert quill[column["named"]] > 0
    # Two of three words: "ada" and "quill" stand in two passages, "bridges" in one.
    n = len(graph)
    two, one = np.log(1 + (n - 1.5) / 2.5), np.log(1 + (n - 0.5) / 1.5)
    assert lighthouse[column["covered"]] == pytest.approx(2 * two / (2 * two + one), abs=1e-5)
    assert lighthouse[column["out_has"]] == 1.0
    assert quill[column["in_has"]] == 1.0
    assert quill[column["in_rarity"]] == pytest.approx(2 * two, abs=1e-4)
    assert quill[column["in_in_question"]] == 1.0
    assert lighthouse[column["beyond_top"]] == 0.0
    assert quill[column["in_gain"]] == pytest.approx(one / (2 * two + one), abs=1e-5)


def test_a_link_brings_in_what_the_search_did_not_find_and_says_so() -> None:
    passages = [
        Passage("label", "Private Music", "Private Music was a record label. Zoltan Brakk released an album there."),
        Passage("person", "Zoltan Brakk", "He was a drummer from a small village."),
        *filler(),
    ]
    hits = open_linked(passages).search("Who released an album on Private Music?", 3)
    found = {hit.passage.id: hit.provenance for hit in hits}
    assert found["person"] == Provenance("link", "label", "Zoltan Brakk")
    assert str(found["person"]) == "label names “Zoltan Brakk”"
    assert [hit.passage.id for hit in hits] == ["label", "person"]


def test_names_in_other_scripts_are_followed() -> None:
    passages = [
        Passage("a", "Волга-фильм", "Студию Волга-фильм основал режиссёр Иван Петренко в Саратове."),
        Passage("b", "Иван Петренко", "Родился в деревне у моря."),
        Passage("c", "東京塔", "東京塔は山田太郎が設計した。"),
        Passage("d", "山田太郎", "建築家。"),
        *filler(),
    ]
    retriever = open_linked(passages)
    assert {"a", "b"} <= {each for each, _, _ in results(retriever, "Кто основал Волга-фильм?", 4)}
    assert {"c", "d"} <= {each for each, _, _ in results(retriever, "東京塔 設計", 4)}


def test_a_passage_that_names_everything_has_few_mentions() -> None:
    names = [f"Alder{n} Birch{n}" for n in range(200)]
    passages = [Passage(f"n{n}", name, "A short text.") for n, name in enumerate(names)]
    everything = Passage("all", "Index", "See also " + ", ".join(names) + ".")
    graph = graph_in_memory(Bm25Index.in_memory([*passages, everything]))
    mentions = graph.named.of_passage(number(graph, "all"))
    assert mentions.stop - mentions.start == 40


def test_an_empty_query_and_an_empty_corpus_find_nothing(shelf: list[Passage]) -> None:
    assert open_linked(shelf).search("?!", 5) == []
    assert open_linked([]).search("anything", 5) == []


def test_updates_and_deletes_end_where_a_fresh_build_does(tmp_path: Path, shelf: list[Passage]) -> None:
    wrong = [Passage(each.id, each.title, each.text + " Wrong.", each.source) for each in shelf[:4]]
    with IndexWriter(tmp_path / "grown") as writer:
        writer.add([*wrong, *filler(90)])
        writer.write_graph()
        writer.add(shelf)
        writer.delete([f"f{n}" for n in range(60, 90)])
        writer.compact()
        writer.write_graph()
    with IndexWriter(tmp_path / "fresh") as writer:
        writer.add([*filler(), *shelf])
        writer.write_graph()
    assert len(list((tmp_path / "grown").glob("names-*"))) == 1
    grown, fresh = (open_linked(index=tmp_path / each) for each in ("grown", "fresh"))
    assert results(grown) == results(fresh) == results(open_linked([*shelf, *filler()]))


def remove_graph(graph: Path) -> None:
    shutil.rmtree(graph)


def cut_words(graph: Path) -> None:
    (graph / "words").write_bytes((graph / "words").read_bytes()[:-4])


def make_older(graph: Path) -> None:
    header = (graph / "arrays.json").read_text()
    assert f'"format": {FORMAT}' in header
    (graph / "arrays.json").write_text(header.replace(f'"format": {FORMAT}', '"format": 1'))


def damage_header(graph: Path) -> None:
    (graph / "arrays.json").write_text("[]")


@pytest.mark.parametrize("harm", [remove_graph, cut_words, make_older, damage_header])
def test_a_graph_that_cannot_be_used_says_what_to_do_and_is_made_again(
    tmp_path: Path, shelf: list[Passage], harm: Callable[[Path], None]
) -> None:
    place = tmp_path / "index"
    with IndexWriter(place) as writer:
        writer.add(shelf)
        writer.write_graph()
    harm(next(place.glob("names-*")))
    with pytest.raises(CorpusError, match="beliefrag index"):
        open_linked(index=place)
    with IndexWriter(place) as writer:
        assert writer.write_graph()
        assert not writer.write_graph()
    assert results(open_linked(index=place)) == results(open_linked(shelf))


def test_questions_without_capitals_find_names_too(graph: NameGraph) -> None:
    text = "where was ada quill"
    question = read_question(text, graph)
    names = names_in_question(question.tokens, question.token_rarity, graph)
    assert [(each.start, each.end) for each in names] == [(2, 4)]
    assert len(links_among([], names, graph).source) == 0


@pytest.mark.parametrize(("about", "home"), [("Write-Ahead Logging", "about"), ("Checkpoints", "explains")])
def test_an_acronym_leads_to_the_passage_about_its_long_form_or_else_to_the_one_that_explains_it(
    about: str, home: str
) -> None:
    graph = make_graph(
        Passage("about", about, "It keeps changes."),
        Passage("explains", "Backups", "Backups rest on Write-Ahead Logging (WAL) of the server."),
        Passage("uses", "Replication", "A standby reads WAL from the primary server."),
    )
    assert targets(graph, "uses") == {home}


def test_what_a_passage_says_of_itself_does_not_hide_a_name_within() -> None:
    graph = make_graph(
        Passage("season", "1998 Brakkton Rovers season", "The 1998 Brakkton Rovers season was their worst."),
        Passage("club", "Brakkton Rovers", "A club of a small town."),
    )
    assert targets(graph, "season") == {"club"}


def test_the_second_look_sees_how_likely_the_other_end_of_a_link_is() -> None:
    def column(*values: float) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.array(values, np.int32)

    # Passage 0 links to 1 and to 2 by one name; 1 links to 3. Two words of the question weigh alike.
    links = Links(
        source=column(0, 0, 1),
        target=column(1, 2, 3),
        start=column(0, 0, 0),
        end=column(1, 1, 1),
        homes=column(2, 2, 1),
        kind=column(0, 0, 0),
        rarity=np.array([6, 6, 8], np.float32),
        in_question=np.zeros(3, bool),
        name=column(7, 7, 9),
    )
    covered = np.array([[1, 0], [0, 1], [0, 1], [0, 0]], np.float32)
    look = Rerank(np.array([0.5, 0.5], np.float32), covered, np.array([0, 1, 1, 3]), links)
    logits = np.array([2.0, 1.0, 0.0, -1.0])
    likely = 1 / (1 + np.exp(-logits))
    rows = look.features(np.arange(4), logits)
    at = {name: place for place, name in enumerate(RERANK_FEATURES)}
    assert rows[:, at["in_likely"]] == pytest.approx([0, likely[0], likely[0], likely[1]])
    assert rows[:, at["out_likely"]] == pytest.approx([likely[1], likely[3], 0, 0])
    assert rows[:, at["in_chain"]] == pytest.approx([0, 0, 0, likely[1] * likely[0]])
    # The other passage of the name that leads to a candidate.
    assert rows[:, at["in_rivals"]] == pytest.approx([0, 0, likely[1], 0])
    assert rows[:, at["same_title_better"]].tolist() == [0, 0, 1, 0]
    assert rows[:, at["beyond_1"]] == pytest.approx([0.5, 0.5, 0.5, 0])
    assert rows[:, at["beyond_2"]] == pytest.approx([0.5, 0, 0, 0])
    assert rows[:, at["place"]] == pytest.approx(np.log1p(np.arange(4)))
