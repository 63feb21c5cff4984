"""Linked retrieval: passages name each other, and one step along names finds what a second search would.

`words` cuts texts into words, `names` and `explicit` find names and links in them, `build` and `graph` write and read
who has and who mentions which name, `candidates` follows names and links, `ranking` scores what was found, and
`linked_retriever` puts it together.
"""

from beliefrag.retrieval.linked.graph import NameGraph
from beliefrag.retrieval.linked.linked_retriever import (
    LinkedOptions,
    LinkedRetriever,
    Ranking,
    graph_in_memory,
    open_graph,
    write_graph,
)
from beliefrag.retrieval.linked.ranking import Ranker, load_ranker

__all__ = [
    "LinkedOptions",
    "LinkedRetriever",
    "NameGraph",
    "Ranker",
    "Ranking",
    "graph_in_memory",
    "load_ranker",
    "open_graph",
    "write_graph",
]
