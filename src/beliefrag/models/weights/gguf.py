"""Reads the head of a GGUF file: enough to say that it is one, and what its model can read.

The file may be anybody's. Every length in it is checked against the file's size before it is believed.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from beliefrag.errors import ModelError

__all__ = ["Head", "read_head"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_CONTROL, _USER_DEFINED = 3, 4
_TOKENS, _TOKEN_TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"


@dataclass(frozen=True, slots=True)
class Head:
    """What the head of the file says about the model."""

    architecture: str
    context: int | None
    """How many tokens the model was trained to read; None where the file does not say."""
    control_tokens: tuple[str, ...]
    """Texts that the tokenizer takes for marks of the chat template, such as the end of a turn."""


def read_head(path: Path) -> Head:
    """Gives the head of a GGUF file.

    Raises:
        ModelError: The file is missing, is not GGUF, or ends too early.
    """
    try:
        with path.open("rb") as file:
            return _Reader(file, path).head()
    except FileNotFoundError:
        raise ModelError(f"There is no file {path}.", remedy="Check the path of the weights.") from None
    except OSError as error:
        raise ModelError(f"The weights {path} cannot be read: {error.strerror}.") from None


class _Reader:
    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        self._left = os.fstat(file.fileno()).st_size

    def head(self) -> Head:
        if self._left < len(_MAGIC) or self._take(len(_MAGIC)) != _MAGIC:
            raise ModelError(f"{self._path} is not a GGUF file.", remedy="Give weights in llama.cpp's format (*.gguf).")
        version = self._number("I")
        if version not in _VERSIONS:
            raise ModelError(
                f"{self._path} has GGUF version {version}, and only 2 and 3 can be read.",
                remedy="Get a newer conversion of the model.",
            )
        self._number("Q")
        values = self._values(self._number("Q"))
        architecture = str(values.get("general.architecture", ""))
        context = values.get(f"{architecture}.context_length")
        return Head(
            architecture=architecture,
            context=context if isinstance(context, int) and context > 0 else None,
            control_tokens=_control_tokens(values.get(_TOKENS, ()), values.get(_TOKEN_TYPES, ())),
        )

    def _values(self, count: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _ in range(count):
            key = self._string()
            values[key] = self._value(self._number("I"))
            # What follows the vocabulary is long (the merges) and says nothing that is needed here.
            if _TOKENS in values and _TOKEN_TYPES in values:
                break
        return values

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        raise self._damaged()

    def _array(self) -> Any:
        kind, count = self._number("I"), self._number("Q")
        if kind in _NUMBERS:
            code = _NUMBERS[kind]
            return struct.unpack(f"<{count}{code}", self._take(count * struct.calcsize(code)))
        read: Callable[[], Any] = self._string if kind == _STRING else self._damage
        if count > self._left:
            raise self._damaged()
        return [read() for _ in range(count)]

    def _string(self) -> str:
        return self._take(self._number("Q")).decode("utf-8", "replace")

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(code)))[0]

    def _take(self, count: int) -> bytes:
        if count > self._left:
            raise self._damaged()
        self._left -= count
        return self._file.read(count)

    def _damage(self) -> Any:
        raise self._damaged()

    def _damaged(self) -> ModelError:
        return ModelError(
            f"{self._path} is damaged or cut short: its head makes no sense.", remedy="Get the file again."
        )


def _control_tokens(tokens: Any, types: Any) -> tuple[str, ...]:
    if not isinstance(tokens, list) or not isinstance(types, tuple):
        return ()
    return tuple(text for text, kind in zip(tokens, types, strict=False) if _is_control(text, kind))


def _is_control(text: str, kind: int) -> bool:
    # llama.cpp promotes some user-defined tokens to control tokens by their text; all of those look like markup.
    markup = text[:1] + text[-1:] in ("<>", "[]")
    return len(text) > 2 and (kind == _CONTROL or (kind == _USER_DEFINED and markup))
