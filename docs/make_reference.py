"""Write the reference pages of the documents from the code: every command with its options, every setting.

Run `python docs/make_reference.py` after a change of a command or a setting; a test compares the pages with the code.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import click
import typer.main
from pydantic.fields import FieldInfo

from beliefrag.cli.app import app
from beliefrag.settings import Settings

FOLDER = Path(__file__).parent / "reference"
_TABLE = "|option|meaning|default|\n|---|---|---|"
_ALSO = " Also: "
_HEAD = "<!-- Written by docs/make_reference.py. Do not edit. -->\n\n"


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Return the text of each reference page, by file name."""
    return {"commands.md": command_page(), "settings.md": settings_page()}


def command_page() -> str:
    """Every command with its own options; options that several commands share are in one table."""
    commands = list(_commands("beliefrag", cast("click.Command", typer.main.get_command(app))))
    rows = {
        path: [_row(each) for each in command.params if not getattr(each, "hidden", False)]
        for path, command in commands
    }
    counts = Counter(row for found in rows.values() for row in found)
    shared = sorted((row for row, count in counts.items() if count > 1), key=lambda row: (-counts[row], row))
    parts = [
        f"{_HEAD}# Commands\n\nLook up a command or an option here; `beliefrag COMMAND --help` also has an example.\n",
        f"## Shared options\n\n{_TABLE}",
        *shared,
    ]
    for path, command in commands:
        parts.append(f"\n## {path.partition(' ')[2]}\n\n{_prose(command.help or '')}\n")
        names = ", ".join(sorted(row.split("|")[1].split(",")[0].split(" ")[0] for row in rows[path] if row in shared))
        extra = [
            f"`--set` also takes {', '.join(f'`{name}`' for name in found)}.\n" for found in [_extra(command)] if found
        ]
        parts += [f"Shared: {names}.\n"] * bool(names) + extra
        own = [row for row in rows[path] if row not in shared]
        parts += [_TABLE, *own] if own else []
    return "\n".join(parts) + "\n"


def settings_page() -> str:
    """Return every setting with its default and its variable."""
    lines = [
        f"{_HEAD}# Settings\n",
        "Look up a setting and its default here; [Settings](../configuration.md) says where a value can be set.\n",
        "|setting|meaning|default|",
        "|---|---|---|",
    ]
    for name, default, words in _settings():
        text, shown = _split_default(words[:1].upper() + words[1:])
        if default not in (None, {}, ()):
            shown = f"`{_shown(default)}`"
        lines.append(f"|`{name}`|{text}|{shown}|")
    return "\n".join(lines) + "\n"


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    # Typer brings command classes of its own: what they hold tells more than what they inherit from.
    children: Mapping[str, click.Command] = getattr(command, "commands", {})
    if not children:
        yield path, command
    for name, child in children.items():
        if not child.hidden:
            yield from _commands(f"{path} {name}", child)


def _prose(text: str) -> str:
    kept = re.sub(r"\s*Example: .+$", "", inspect.cleandoc(text).replace("\f", ""), flags=re.MULTILINE)
    return kept.replace("<", "&lt;")


def _extra(command: click.Command) -> list[str]:
    """Return the names that `--set` takes in this command alone."""
    found = (_help(each).partition(_ALSO)[2].rstrip(".") for each in command.params if "--set" in each.opts)
    return [name for text in found if text for name in text.split(", ")]


def _row(parameter: click.Parameter) -> str:
    default = parameter.default
    text, shown = _split_default(_help(parameter).partition(_ALSO)[0])
    if default not in (None, False, "", ()) and not callable(default):
        shown = f"`{_shown(default)}`"
    if parameter.param_type_name == "argument":
        return f"|`{(parameter.metavar or parameter.name or '').replace('|', ' or ')}`|{text}|{shown}|"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = f" {_cell(parameter.metavar)}" if parameter.metavar else ""
    return f"|{names}{value}|{text}|{shown}|"


def _split_default(text: str) -> tuple[str, str]:
    """Return a text without what it says about the default, and that."""
    found = re.fullmatch(r"(.*?); (?:by default (.*?)|([^;]*?) by default)\.?", _cell(text))
    said, default = (found[1], found[2] or found[3]) if found else (_cell(text), "")
    return said if said.endswith(".") else f"{said}.", default


def _help(parameter: click.Parameter) -> str:
    return getattr(parameter, "help", None) or ""


def _settings() -> Iterator[tuple[str, object, str]]:
    for name, info in Settings.model_fields.items():
        default = info.get_default(call_default_factory=True)  # type: ignore[call-arg]
        if dataclasses.is_dataclass(default) and not isinstance(default, type):
            words = _attribute_docstrings(type(default))
            for field in Settings().model_dump()[name]:
                yield f"{name}.{field}", getattr(default, field), words.get(field, "")
        else:
            yield name, default, _description(info)


def _description(info: FieldInfo) -> str:
    return info.description or ""


def _attribute_docstrings(kind: type) -> dict[str, str]:
    """Return the texts below the fields of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            found[field.target.id] = " ".join(below.value.value.split())
    return found


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    main()
