"""`beliefrag search`: print the passages that a search finds; no model is loaded."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beliefrag.cli import options, output
from beliefrag.cli.options import GivenSettings, Json, argument, join_paths, option, with_settings

if TYPE_CHECKING:
    from beliefrag.types import Hit

_SHOWN = 300
"""Characters of a passage that are printed; --json has them all."""


@with_settings("retriever")
def search(
    query: Annotated[str, argument("QUERY", "What to look for.")],
    further: options.FurtherPaths = None,
    *,
    documents: options.Documents,
    k: Annotated[int, option("N", "The maximum number of passages.", "--k", min=1, max=1000)] = 5,
    as_json: Json = False,
    given: GivenSettings,
) -> None:
    """Print the passages that a search finds, best first, with their places and how they were found.

    Example: beliefrag search "travel above the limit" --docs handbook/ --where "type=md"
    """
    from beliefrag.opening import open_search
    from beliefrag.retrieval import close_retriever

    paths = join_paths(documents.docs, further)
    with output.show_index_progress() as progress:
        retriever = open_search(
            given.read(), docs=paths, index=documents.index, progress=progress, where=documents.where
        )
    try:
        hits = retriever.search(query, k)
    finally:
        close_retriever(retriever)
    if as_json:
        sys.stdout.write(json.dumps([hit_record(hit) for hit in hits]) + "\n")
        return
    for number, hit in enumerate(hits, start=1):
        passage = hit.passage
        where = ", ".join(filter(None, (passage.source, passage.place)))
        found = f", {hit.provenance}" if hit.provenance and hit.provenance.way != "search" else ""
        typer.echo(output.safe_line(f"{number}. {passage.title or passage.id} ({where or passage.id})"))
        typer.echo("   " + output.safe_line(f"score {hit.score:.3g}{found}"))
        text = " ".join(passage.text.split())
        typer.echo("   " + output.safe_line(f"{text[:_SHOWN]}{' …' if len(text) > _SHOWN else ''}"))
    if not hits:
        output.print_notice("nothing was found")


def hit_record(hit: Hit) -> dict[str, Any]:
    """Return a hit as JSON."""
    passage = hit.passage
    return {
        "id": passage.id,
        "title": passage.title,
        "text": passage.text,
        "source": passage.source,
        "place": passage.place,
        "metadata": passage.metadata,
        "score": hit.score,
        "found_by": str(hit.provenance) if hit.provenance else "search",
    }
