"""Rules of the whole tree: layers, names and sizes. The layers themselves are checked by import-linter."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "beliefrag"
NAMES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))
ROOMS = {name.split("/")[0].removesuffix(".py") for name in NAMES} - {"__init__", "__main__", "_version"}
MOST_LINES = 700


def parse_modules() -> Iterator[tuple[str, ast.Module]]:
    """Return each file of the package with its syntax tree, one at a time: all of them would fill the memory."""
    for name in NAMES:
        yield name, ast.parse((SOURCE / name).read_text("utf-8"))


def test_the_layers_cover_every_room() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert {module.split(".")[1] for layer in layers for module in re.findall(r"[\w.]+", layer)} == ROOMS


def test_the_map_names_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    table = page[page.index("## The rooms") :]
    named = {name.split("/")[0].removesuffix(".py") for name in re.findall(r"`([\w/.]+)`", table)}
    assert ROOMS - named == set()


def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for name, tree in parse_modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_file_is_too_long_to_read() -> None:
    lengths = {name: len((SOURCE / name).read_text("utf-8").splitlines()) for name in NAMES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
