"""Gets LangGraph's own agentic RAG from the page of its documentation.

The prompts and nodes are not in this repository, so that they are those of the page to the letter: the page is fetched
at one commit, its definitions are cut out, and their digest is compared.
"""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
import urllib.request
from pathlib import Path

__all__ = ["cut_definitions", "prepare_tutorial"]

COMMIT = "09bdf6006fc60fb02c4df82901c9cb495ac63c9d"
PAGE = f"https://raw.githubusercontent.com/langchain-ai/docs/{COMMIT}/src/oss/langgraph/agentic-rag.mdx"
DIGEST = "3cc8479c607863668aa673b013a484ace4844903ddc6a2221906c1ff691173b4"
"""SHA-256 of what `cut_definitions` gives for the page."""

_WANTED = frozenset(
    {
        "generate_query_or_respond",
        "GRADE_PROMPT",
        "GradeDocuments",
        "grade_documents",
        "REWRITE_PROMPT",
        "rewrite_question",
        "GENERATE_PROMPT",
        "generate_answer",
    }
)
_BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def prepare_tutorial(folder: Path) -> Path:
    """Return a Python file with the page's definitions; the page is fetched where the folder does not have it.

    Raises:
        SystemExit: The page cannot be fetched, or it is another one.
    """
    page = folder / Path(PAGE).name
    if not page.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(PAGE, timeout=60) as reply:
                page.write_bytes(reply.read())
        except OSError as error:
            raise SystemExit(f"LangGraph's page was not fetched ({error}). Save {PAGE} as {page}.") from error
    definitions = cut_definitions(page.read_text(encoding="utf-8"))
    if hashlib.sha256(definitions.encode()).hexdigest() != DIGEST:
        raise SystemExit(f"{page} has other prompts or nodes than {PAGE}. Delete it to fetch the page again.")
    cut = page.with_suffix(".py")
    cut.write_text(definitions, encoding="utf-8")
    return cut


def cut_definitions(page: str) -> str:
    """Return the prompts, the grading scheme and the nodes in the Python blocks of the page, in its order."""
    found = []
    for block in _BLOCK.finditer(page):
        source = textwrap.dedent(block[2])
        try:
            statements = ast.parse(source).body
        except SyntaxError:
            continue  # a command for the shell
        found += [ast.get_source_segment(source, each) for each in statements if _name_of(each) in _WANTED]
    return "\n\n\n".join(map(str, found)) + "\n"


def _name_of(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""
