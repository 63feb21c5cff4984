"""What names a passage has and mentions in handbooks, and how candidates stand to each other at the second look."""

from __future__ import annotations

import numpy as np
import pytest

from beliefrag.retrieval.bm25 import Bm25Index
from beliefrag.retrieval.linked import NameGraph, graph_in_memory
from beliefrag.retrieval.linked.candidates import Links
from beliefrag.retrieval.linked.names import NameKind, names_of
from beliefrag.retrieval.linked.ranking import RERANK_FEATURES, Rerank
from beliefrag.retrieval.linked.words import rarity_needed
from beliefrag.types import Passage


def make_graph(*passages: Passage) -> NameGraph:
    plain = [Passage(f"f{n}", f"Entry {n}", f"Plain text number {n} about item{n}.") for n in range(600)]
    return graph_in_memory(Bm25Index.in_memory([*passages, *plain]))


def targets(graph: NameGraph, passage: str) -> set[str]:
    """The passages whose names a passage mentions."""
    number = next(at for at in range(len(graph)) if graph.passage_id(at) == passage)
    names = graph.named.name[graph.named.of_passage(number)].tolist()
    return {graph.passage_id(home) for name in names for home in graph.home_passage[graph.homes(name)].tolist()}


def test_an_entry_below_headings_is_named_by_its_terms() -> None:
    named = set(names_of("git-rebase(1) > OPTIONS > -i, --interactive", "Makes a list."))
    assert {
        ("git-rebase", NameKind.SHORT_TITLE),
        ("-i", NameKind.ENTRY),
        ("--interactive", NameKind.ENTRY),
    } <= named
    assert ("work_mem", NameKind.HEADING) in set(names_of("Memory > 20.4 work_mem (integer)", "Sets it."))
    assert ("ssh_config", NameKind.PLAIN_TITLE) in set(names_of("ssh_config.5", "A file."))


@pytest.mark.parametrize("term", ["RestartSec", "/etc/ssh/sshd_config", "AB-4411", "max_wal_size", "core.editor"])
def test_parameters_paths_and_part_numbers_at_the_beginning_of_a_line_are_names(term: str) -> None:
    after = "=" if term == "RestartSec" else ""
    assert (term, NameKind.TERM) in set(names_of("Page", f"Some words.\n{term}{after} is explained here."))


def test_an_acronym_leads_to_the_passage_about_its_long_form() -> None:
    graph = make_graph(
        Passage("about", "Write-Ahead Logging", "It keeps changes."),
        Passage("explains", "Backups", "Backups rest on write-ahead logging (WAL) of the server."),
        Passage("uses", "Replication", "A standby reads WAL from the primary server."),
    )
    assert targets(graph, "uses") == {"about"}


def test_an_acronym_without_such_a_passage_leads_to_the_one_that_explains_it() -> None:
    graph = make_graph(
        Passage("explains", "Leave", "Ask the Department of Human Resources (DHR) first."),
        Passage("uses", "Travel", "Journeys are approved by DHR in writing."),
    )
    assert targets(graph, "uses") == {"explains"}


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


def test_names_link_the_passages_of_a_handful_of_documents() -> None:
    film = Passage("film", "Dusk", "Dusk is a film directed by Ada Holm.")
    person = Passage("person", "Ada Holm", "Ada Holm was a designer of bridges.")
    others = (Passage("hill", "Torsby", "Torsby is a town."), Passage("rain", "Rain", "It rains in the town."))
    graph = graph_in_memory(Bm25Index.in_memory([film, person, *others]))
    assert targets(graph, "film") == {"person"}
    assert targets(graph, "hill") == set()


def test_a_word_of_three_passages_is_rare_enough_in_a_small_corpus_and_none_below_five_in_a_large_one() -> None:
    assert (
        rarity_needed(4) < rarity_needed(40) < rarity_needed(400) < rarity_needed(1_000) == rarity_needed(10**6) == 5.0
    )
