"""Linked retrieval: passages name each other, and one step along names finds what a second search would.

`tokens` cuts texts into words, `names` knows what a name is, `build` and `graph` make and hold who has and who mentions
which name, `explicit` finds the links that authors made, `candidates` follows names and links, `features`,
`rerank` and `ranker` say which passage is needed, `link_boost` raises what likely passages lead to in documents
with headings, and `retriever` puts it together.
"""

from beliefrag.retrieval.linked.graph import NameGraph
from beliefrag.retrieval.linked.linked_retriever import (
    LinkedOptions,
    LinkedRetriever,
    Ranking,
    graph_folder,
    graph_in_memory,
    open_graph,
    write_graph,
)
from beliefrag.retrieval.linked.ranker import Ranker, load_ranker

__all__ = [
    "LinkedOptions",
    "LinkedRetriever",
    "NameGraph",
    "Ranker",
    "Ranking",
    "graph_folder",
    "graph_in_memory",
    "load_ranker",
    "open_graph",
    "write_graph",
]
