"""The registry of extensions: methods, retrievers, verifier forms, datasets, studies and model providers.

An extension is a frozen dataclass whose fields are its options, or a function that builds it from its options and from
what the program gives to every extension of its kind:

    @METHODS.register("two_searches", title="Two searches", summary="Searches twice, then answers.")
    @dataclass(frozen=True, slots=True)
    class TwoSearches: ...

    @RETRIEVERS.register("linked", title="Linked", summary="Follows names in passages.", options=LinkedOptions)
    def open_linked(options: LinkedOptions, source: RetrieverInputs) -> Retriever: ...

    retriever = RETRIEVERS.choose("linked:ranker=mine.npz", settings.retrievers).build(RetrieverInputs(...))

A module is imported when an extension of it is first used. Other packages name theirs in `pyproject.toml`:

    [project.entry-points."beliefrag.methods"]
    two_searches = "my_package.two_searches"
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import BeliefRAGError, SettingsError

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - the usual letter for inputs
_Target = TypeVar("_Target", bound=Callable[..., Any])

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of an extension that has none."""


@dataclass(frozen=True, slots=True)
class TypicalCost:
    """Mean model calls and tokens, of an episode or of a part of one."""

    calls: float
    tokens_in: float
    tokens_out: float

    def __add__(self, other: TypicalCost) -> TypicalCost:
        return TypicalCost(
            self.calls + other.calls, self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out
        )

    def times(self, n: float) -> TypicalCost:
        """Return the cost of n of them."""
        return TypicalCost(self.calls * n, self.tokens_in * n, self.tokens_out * n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension(Generic[T, I]):
    """One registered extension, with what the rest of the program must know about it."""

    kind: str
    name: str
    title: str
    summary: str
    options: type[Any]
    """A frozen dataclass with a default for every field."""
    build: Callable[[Any, I], T]
    needs_calibration: bool = False
    """Whether it rests on a fit for the model."""
    needs_token_probabilities: bool = False
    """Whether it fails, with a message that says so, on a model that reports no token probabilities."""
    profile: str = ""
    """For a method: the profile that says how it searches and reads; empty for the settings of the run."""
    thresholds_from: str = ""
    """The source of the default thresholds, such as "the authors"."""
    cost: TypicalCost | None = None

    def make_options(self, values: Mapping[str, Any]) -> Any:
        """Return the options with these values; a text is parsed as the type of its option, a list as `a+b`."""
        described = "; ".join(self.describe_options())
        remedy = f"Its options are {described}." if described else "It has no options."
        known = {each.name: str(each.type) for each in fields(self.options)}
        if unknown := next((name for name in values if name not in known), None):
            raise SettingsError(f"The {self.kind} {self.name!r} has no option {unknown!r}.", remedy=remedy)
        try:
            parsed = {name: _parse_option(name, known[name], value) for name, value in values.items()}
            return TypeAdapter(self.options).validate_python(parsed)
        except ValidationError as error:
            first = error.errors()[0]
            given = f"{first['loc'][0]}={first['input']!r}" if first["loc"] else _as_text(values)
            if len(first["loc"]) > 1:
                given = str(first["loc"][0])  # the value in a mapping may be a key
            problem = first["msg"].removeprefix("Value error, ").removesuffix(".")
            raise SettingsError(
                f"The {self.kind} {self.name!r} cannot use {given}: {problem}.", remedy=remedy
            ) from None

    def describe_options(self) -> tuple[str, ...]:
        """Return each option as `name: type = default`."""
        return tuple(
            f"{each.name}: {each.type.__name__ if isinstance(each.type, type) else each.type} = {_default(each)!r}"
            for each in fields(self.options)
        )


@dataclass(frozen=True, slots=True)
class ExtensionChoice(Generic[T, I]):
    """An extension with the options that were chosen for it."""

    extension: Extension[T, I]
    options: Any

    @property
    def name(self) -> str:
        """The name of the extension, without options."""
        return self.extension.name

    def build(self, inputs: I) -> T:
        """Build the extension."""
        return self.extension.build(self.options, inputs)

    def changed_options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        values = {each.name: (getattr(self.options, each.name), _default(each)) for each in fields(self.options)}
        return {name: value for name, (value, default) in values.items() if value != default}

    def __str__(self) -> str:
        """Return what to type: `NAME`, or `NAME:key=value,...` with the options that differ from their defaults."""
        changed = self.changed_options()
        return f"{self.name}:{_as_text(changed)}" if changed else self.name


class Registry(Generic[T, I]):
    """All extensions of one kind, by name, in the order in which tables show them.

    `kind` is the word for messages, `group` the entry-point group of other packages, and `modules` maps the names of
    our own extensions to the modules that register them.
    """

    def __init__(self, kind: str, group: str, modules: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self._modules = dict(modules)
        self._extensions: dict[str, Extension[T, I]] = {}
        self._reported: set[str] = set()

    def register(self, name: str, *, options: type[Any] | None = None, **about: Any) -> Callable[[_Target], _Target]:
        """Return a decorator that registers a frozen dataclass, or a function of options and inputs.

        `options` is for a function; a decorated class is its own options. `about` is the other fields of `Extension`,
        of which `title` and `summary` are required.
        """

        def add(target: _Target) -> _Target:
            own_options = options or (target if isinstance(target, type) else NoOptions)
            build: Callable[..., Any] = target if own_options is not target else lambda given, _: given
            self._extensions[name] = Extension(kind=self.kind, name=name, options=own_options, build=build, **about)
            return target

        return add

    def __getitem__(self, name: str) -> Extension[T, I]:
        """Return the extension of that name, or raise a `SettingsError` with the reason why it cannot be used."""
        if name not in self._extensions:
            self._load(name)
        return self._extensions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._extensions or name in self._offers

    def __iter__(self) -> Iterator[str]:
        """Return the names: ours in the order of the tables, then those of other packages. Imports nothing."""
        yield from dict.fromkeys([*self._modules, *sorted(self._offers), *self._extensions])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def usable(self) -> Iterator[Extension[T, I]]:
        """Return every extension that can be imported; log one that cannot once, in one line."""
        for name in self:
            try:
                yield self[name]
            except BeliefRAGError as error:
                self._report(str(error))

    def title(self, name: str) -> str:
        """Return the title of an extension, or its name if it is not installed here."""
        try:
            return self[name].title
        except BeliefRAGError:
            return name

    def choose(self, text: str, settings: Mapping[str, Mapping[str, Any]] | None = None) -> ExtensionChoice[T, I]:
        """Parse `NAME` or `NAME:key=value,key=value`; `settings` has options by name of the extension."""
        name, _, typed = text.partition(":")
        extension = self[name.strip()]
        values: dict[str, str] = {}
        for piece in filter(None, (each.strip() for each in typed.split(","))):
            key, equals, value = (part.strip() for part in piece.partition("="))
            if not (key and equals):
                remedy = f"Write it as {self.kind.upper()}:key=value,key=value."
                raise SettingsError(f"{piece!r} in {text!r} is not an option.", remedy=remedy)
            values[key] = value
        return ExtensionChoice(
            extension, extension.make_options({**(settings or {}).get(extension.name, {}), **values})
        )

    @cached_property
    def _offers(self) -> dict[str, tuple[EntryPoint, ...]]:
        """What other packages offer, by name. Nothing of theirs is imported for it."""
        offers: dict[str, tuple[EntryPoint, ...]] = {}
        for entry in entry_points(group=self.group):
            if entry.name in self._modules:
                self._report(
                    f"The package {_package(entry)} offers a {self.kind} {entry.name!r}, which is the name of one of "
                    "ours: ours is used."
                )
            elif entry not in offers.get(entry.name, ()):
                offers[entry.name] = (*offers.get(entry.name, ()), entry)
        return offers

    def _load(self, name: str) -> None:
        if name in self._modules:
            import_module(self._modules[name])
            return
        entries = self._offers.get(name, ())
        if not entries:
            near = difflib.get_close_matches(name, self, n=2)
            meant = f"Did you mean {' or '.join(near)}? " if near else ""
            own = f"A package of your own names it under the entry point {self.group}: see CONTRIBUTING.md."
            raise SettingsError(f"No {self.kind} is called {name!r}.", remedy=f"{meant}Known: {', '.join(self)}. {own}")
        packages = " and ".join(map(_package, entries))
        if len(entries) > 1:
            raise SettingsError(
                f"The packages {packages} both offer a {self.kind} {name!r}.", remedy="Uninstall one of them."
            )
        problem = f"{entries[0].value} does not register it"
        try:
            entries[0].load()
        except Exception as error:
            _log.debug("The package %s cannot be imported.", packages, exc_info=True)
            problem = " ".join(f"{type(error).__name__}: {error}".split())
        if name not in self._extensions:
            raise SettingsError(
                f"The {self.kind} {name!r} of the package {packages} cannot be used: {problem}.",
                remedy=f"Fix or uninstall {packages}.",
            )

    def _report(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            _log.warning("%s", line)


def explain_mistake(error: Exception) -> tuple[str, str]:
    """Return the message and the remedy for an error that was not raised on purpose.

    If code of another package's extension was running, the message names that package.
    """
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    groups = [group for group in entry_points().groups if group.startswith("beliefrag.")]
    offered = {entry.module.partition(".")[0] for group in groups for entry in entry_points(group=group)}
    running = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in walk_tb(error.__traceback__)]
    if package := next((name for name in reversed(running) if name in offered - {"beliefrag"}), None):
        return f"The extension package {package} failed, {what}.", "Run again with --debug to see where."
    return f"Internal error, {what}.", "Run again with --debug and report what it prints."


def _parse_option(name: str, kind: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if kind.startswith("Mapping["):
        try:
            return json.loads(value)
        except ValueError:
            # The text is not shown: it may hold a key.
            raise SettingsError(f"The option {name} is not a JSON object.", remedy='Write {"name": "value"}.') from None
    return tuple(re.split(r"[+,]", value)) if kind.startswith(("tuple[", "list[")) else value


def _default(option: Any) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _as_text(values: Mapping[str, Any]) -> str:
    return ",".join(
        f"{key}={'+'.join(map(str, value)) if isinstance(value, tuple | list) else value}"
        for key, value in values.items()
    )


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
