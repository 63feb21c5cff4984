"""Writes the reference pages of the documents from the code: every command with its options, every setting.

Run `python docs/make_reference.py` after a change of a command or a setting; a test compares the pages with the code.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import click
import typer.main
from pydantic.fields import FieldInfo

from beliefrag.cli.app import app
from beliefrag.settings import Settings

FOLDER = Path(__file__).parent / "reference"
_HEAD = "<!-- Written by docs/make_reference.py. Do not edit. -->\n\n"


def main() -> None:
    """Writes all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """The text of each reference page, by file name."""
    return {"commands.md": command_page(), "settings.md": settings_page()}


def command_page() -> str:
    """Every command: what it does, its arguments and its options."""
    root = cast("click.Command", typer.main.get_command(app))
    parts = [f"{_HEAD}# Commands\n\nEvery command and every option. `beliefrag COMMAND --help` prints the same.\n"]
    for path, command in _commands("beliefrag", root):
        parts.append(_command_section(path, command))
    return "\n".join(parts)


def settings_page() -> str:
    """Every setting with its default and its variable."""
    lines = [
        f"{_HEAD}# Settings\n",
        "Every setting, its default and what it does. The page on [settings](../configuration.md) says where a value",
        "can be set and which of several values wins.\n",
        "| setting | default | what it does |",
        "|---|---|---|",
    ]
    for name, default, words in _settings():
        shown = "-" if default is None else f"`{_shown(default)}`"
        lines.append(f"| `{name}` | {shown} | {_cell(words)} |")
    return "\n".join(lines) + "\n"


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    # Typer brings command classes of its own: what they hold tells more than what they inherit from.
    children: Mapping[str, click.Command] = getattr(command, "commands", {})
    if not children:
        yield path, command
    for name, child in children.items():
        if not child.hidden:
            yield from _commands(f"{path} {name}", child)


def _command_section(path: str, command: click.Command) -> str:
    lines = [f"## {path}\n", _prose(command.help or ""), ""]
    rows = [row for parameter in command.params if (row := _parameter(parameter))]
    if rows:
        lines += ["| option | what it does |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _prose(text: str) -> str:
    # An example in a help text stands on its own line; here it is set as code.
    text = inspect.cleandoc(text).replace("\f", "")
    return re.sub(r"^Example: (.+)$", r"Example: `\1`", text, flags=re.MULTILINE).replace("<", "&lt;")


def _parameter(parameter: click.Parameter) -> str:
    help_text = getattr(parameter, "help", None) or ""
    if getattr(parameter, "hidden", False):
        return ""
    if parameter.param_type_name == "argument":
        return f"| `{parameter.metavar or parameter.name}` | {_cell(help_text)} |"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = f" {_cell(parameter.metavar)}" if parameter.metavar else ""
    return f"| {names}{value} | {_cell(help_text)} |"


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
    """The texts that stand below the fields of a class."""
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
