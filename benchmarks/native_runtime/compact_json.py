"""Larger batches, and JSON as compact as llguidance writes it: build.sh adds this to the end of xllamacpp's module.

Without llguidance llama.cpp makes its own grammar of a JSON schema, which allows white space everywhere.
"""

from collections.abc import Mapping
from typing import Any

from .xllamacpp import Server as _Server  # type: ignore
from .xllamacpp import json_schema_to_grammar as _json_schema_to_grammar

_BATCH = 512


def Server(parameters: Any) -> Any:  # noqa: N802 - the name that it replaces
    """Open a model that reads more of a prompt at once than the product asks for."""
    parameters.n_batch = parameters.n_ubatch = _BATCH
    return _Server(parameters)


def json_schema_to_grammar(schema: Mapping[str, Any]) -> str:
    """Make a grammar with one space behind a comma or a colon, and none elsewhere."""
    own = {key: value for key, value in schema.items() if key != "x-guidance"}
    rules = _json_schema_to_grammar(own).splitlines()
    compact = [rule.replace('":" space', '": "').replace('"," space', '", "') for rule in rules]
    return "\n".join('space ::= ""' if rule.startswith("space ::=") else rule for rule in compact) + "\n"
