"""The registry of extensions: methods, retrievers, verifier forms, datasets, studies and model providers.

Everything of one kind that can be chosen by name stands in one `Registry`. A registration carries what the rest of the
program must know about the extension, so that adding one is one file. An extension is a frozen dataclass, whose fields
are its options:

    @METHODS.register("two_searches", title="Two searches", summary="Searches twice, then answers.")
    @dataclass(frozen=True, slots=True)
    class TwoSearches:
        name: ClassVar[str] = "two_searches"
        depth: int = 5
        def begin(self) -> Controller: ...

or a function that builds it, from its options and from what the program gives to every extension of this kind:

    @dataclass(frozen=True, slots=True)
    class LinkedOptions:
        steps: int = 2

    @RETRIEVERS.register("linked", title="Linked", summary="Follows names in passages.", options=LinkedOptions)
    def open_linked(options: LinkedOptions, source: RetrieverInputs) -> Retriever: ...

A registry is used like this:

    RETRIEVERS: Registry[Retriever, RetrieverInputs] = Registry(
        "retriever", "beliefrag.retrievers", {"bm25": "beliefrag.retrieval.bm25", "linked": "..."}
    )
    chosen = RETRIEVERS.choose("linked:steps=3", settings.retrievers)   # options: typed text over the settings file
    retriever = chosen.build(RetrieverInputs(...))

The modules of our own extensions are named in the registry and imported when an extension is first looked at. A
package of somebody else names its extensions in its `pyproject.toml`; it is imported when its name is chosen or all
names are listed:

    [project.entry-points."beliefrag.methods"]
    two_searches = "my_package.two_searches"
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from traceback import walk_tb
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from beliefrag.errors import BeliefRAGError, SettingsError

__all__ = ["Extension", "ExtensionChoice", "NoOptions", "Registry", "TypicalCost", "explain_mistake"]

T = TypeVar("T")
"""What an extension is, once it is built."""
I = TypeVar("I")  # noqa: E741 - the usual letter for inputs
"""What the program gives to every extension of the kind when it builds one."""
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
        """Gives the cost of n of them."""
        return TypicalCost(self.calls * n, self.tokens_in * n, self.tokens_out * n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension(Generic[T, I]):
    """One registered extension, with what the rest of the program must know about it."""

    kind: str
    name: str
    title: str
    """How tables and figures write it."""
    summary: str
    """What it does, in one sentence."""
    options: type[Any]
    """A frozen dataclass with a default for every field."""
    build: Callable[[Any, I], T]
    """Makes the thing from its options and the inputs of its kind."""
    needs_calibration: bool = False
    """Whether it rests on a fit for the model."""
    needs_token_probabilities: bool = False
    """Whether it fails, with a message that says so, on a model that reports no token probabilities."""
    profile: str = ""
    """For a method: the profile that says how it searches and reads; empty for the settings of the run."""
    thresholds_from: str = ""
    """Where the default thresholds come from, such as "the authors"; empty where it has no thresholds."""
    cost: TypicalCost | None = None
    """What one use typically costs; None where nobody knows."""

    def make_options(self, values: Mapping[str, Any]) -> Any:
        """Gives the options object with these values; texts are read as the type of their option.

        Raises:
            SettingsError: There is no such option, or a value cannot be used.
        """
        known = [each.name for each in fields(self.options)]
        if unknown := [name for name in values if name not in known]:
            raise SettingsError(
                f"The {self.kind} {self.name!r} has no option {unknown[0]!r}.", remedy=self._known_options()
            )
        try:
            reader = _option_reader(self.options)  # type: ignore[arg-type] # mypy: a class need not be hashable
            return reader.validate_python(self._split_lists(values))
        except ValidationError as error:
            first = error.errors()[0]
            given = f"{first['loc'][0]}={first['input']!r}" if first["loc"] else _as_text(values)
            problem = first["msg"].removeprefix("Value error, ").removesuffix(".")
            raise SettingsError(
                f"The {self.kind} {self.name!r} cannot use {given}: {problem}.", remedy=self._known_options()
            ) from None

    def _split_lists(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Gives the values, with a text such as `a+b` split into its parts where the option is a list.

        An option whose type says by itself how a text is read (`Annotated`) gets the text.
        """
        lists = {each.name for each in fields(self.options) if str(each.type).startswith(("tuple[", "list["))}
        return {
            name: tuple(re.split(r"[+,]", value)) if name in lists and isinstance(value, str) else value
            for name, value in values.items()
        }

    def describe_options(self) -> tuple[str, ...]:
        """Gives each option as `name: type = default`."""
        return tuple(
            f"{each.name}: {each.type.__name__ if isinstance(each.type, type) else each.type} = {_default(each)!r}"
            for each in fields(self.options)
        )

    def _known_options(self) -> str:
        known = self.describe_options()
        return f"Its options are {'; '.join(known)}." if known else "It has no options."


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
        """Makes the thing."""
        return self.extension.build(self.options, inputs)

    def changed_options(self) -> dict[str, Any]:
        """Gives the options that differ from their defaults."""
        return {
            each.name: getattr(self.options, each.name)
            for each in fields(self.extension.options)
            if getattr(self.options, each.name) != _default(each)
        }

    def __str__(self) -> str:
        """Gives what to type: `NAME`, or `NAME:key=value,...` with the options that differ from their defaults."""
        changed = self.changed_options()
        return f"{self.name}:{_as_text(changed)}" if changed else self.name


@cache
def _option_reader(options: type[Any]) -> TypeAdapter[Any]:
    """Gives what reads texts as the types of these options; making it takes longer than reading."""
    return TypeAdapter(options)


class Registry(Generic[T, I]):
    """All extensions of one kind, by name, in the order in which tables show them.

    Args:
        kind: What an extension is called in messages, such as "method".
        group: The entry-point group through which other packages register theirs.
        modules: Our own extensions: the name of each and the module that registers it.
        plural: The kind in the plural: also the name of its section in the settings file.
    """

    def __init__(self, kind: str, group: str, modules: Mapping[str, str], *, plural: str = "") -> None:
        self.kind = kind
        self.group = group
        self.plural = plural or f"{kind}s"
        self._modules = dict(modules)
        self._extensions: dict[str, Extension[T, I]] = {}
        self._reported: set[str] = set()

    def register(
        self,
        name: str,
        *,
        title: str,
        summary: str,
        options: type[Any] | None = None,
        needs_calibration: bool = False,
        needs_token_probabilities: bool = False,
        profile: str = "",
        thresholds_from: str = "",
        cost: TypicalCost | None = None,
    ) -> Callable[[_Target], _Target]:
        """Gives a decorator that registers a frozen dataclass, or a function of options and inputs.

        Args:
            name: How it is chosen: on the command line, in settings and in code.
            title: How tables and figures write it.
            summary: What it does, in one sentence.
            options: For a function: a frozen dataclass with its options. A decorated class is its own options.
            needs_calibration: Whether it rests on a fit for the model.
            needs_token_probabilities: Whether it needs a model that reports them.
            profile: The profile that says how a method searches and reads where nobody does.
            thresholds_from: Where its default thresholds come from; empty where it has none.
            cost: What one use typically costs; None when that is not known.

        Raises:
            SettingsError: Another extension has that name.
        """

        def add(target: _Target) -> _Target:
            if name in self._extensions:
                raise SettingsError(
                    f"Two {self.plural} are called {name!r}: one of {_module(self._extensions[name].build)} and one of "
                    f"{target.__module__}.",
                    remedy="Give one of them another name.",
                )
            own_options = options or (target if isinstance(target, type) else NoOptions)
            if not is_dataclass(own_options) or any(
                each.default is MISSING and each.default_factory is MISSING for each in fields(own_options)
            ):
                raise SettingsError(
                    f"{own_options.__name__} cannot be the options of the {self.kind} {name!r}.",
                    remedy="Make it a @dataclass(frozen=True, slots=True) with a default for every field, below the "
                    "registration.",
                )
            build = cast(Callable[[Any, I], T], _itself(target) if own_options is target else target)
            self._extensions[name] = Extension(
                kind=self.kind,
                name=name,
                title=title,
                summary=summary,
                options=own_options,
                build=build,
                needs_calibration=needs_calibration,
                needs_token_probabilities=needs_token_probabilities,
                profile=profile,
                thresholds_from=thresholds_from,
                cost=cost,
            )
            return target

        return add

    def __getitem__(self, name: str) -> Extension[T, I]:
        """Gives the extension of that name.

        Raises:
            SettingsError: There is none, two packages offer it, or the package that offers it cannot be used.
        """
        if name not in self._extensions:
            self._load(name)
        return self._extensions[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules or name in self._extensions or name in self._offers

    def __iter__(self) -> Iterator[str]:
        """Gives the names: ours in the order of the tables, then those of other packages. Imports nothing."""
        yield from dict.fromkeys([*self._modules, *sorted(self._offers), *self._extensions])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def usable(self) -> Iterator[Extension[T, I]]:
        """Gives every extension that can be imported. One that cannot is logged once, in one line, and left out."""
        for name in self:
            try:
                yield self[name]
            except BeliefRAGError as error:
                self._report(str(error))

    def title(self, name: str) -> str:
        """Gives the title as tables write it, or the bare name of an extension that is not installed here."""
        try:
            return self[name].title
        except BeliefRAGError:
            return name

    def choose(self, text: str, settings: Mapping[str, Mapping[str, Any]] | None = None) -> ExtensionChoice[T, I]:
        """Reads `NAME` or `NAME:key=value,key=value`.

        Args:
            text: What was typed.
            settings: Options by name of the extension, from the settings file; what was typed goes before them.

        Raises:
            SettingsError: The name, an option or a value cannot be used.
        """
        name, _, typed = text.partition(":")
        extension = self[name.strip()]
        values = {**(settings or {}).get(extension.name, {}), **self._read_options(text, typed)}
        return ExtensionChoice(extension, extension.make_options(values))

    def _read_options(self, text: str, typed: str) -> dict[str, str]:
        values: dict[str, str] = {}
        for piece in filter(None, (each.strip() for each in typed.split(","))):
            key, equals, value = (part.strip() for part in piece.partition("="))
            if not (key and equals):
                raise SettingsError(
                    f"{piece!r} in {text!r} is no option.",
                    remedy=f"Write it as {self.kind.upper()}:key=value,key=value.",
                )
            if key in values:
                raise SettingsError(f"{text!r} gives the option {key!r} twice.", remedy="Give it once.")
            values[key] = value
        return values

    @cached_property
    def _offers(self) -> dict[str, tuple[EntryPoint, ...]]:
        """Gives what other packages offer, by name. Nothing of theirs is imported for it."""
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
            if name not in self._extensions:
                raise RuntimeError(f"{self._modules[name]} does not register the {self.kind} {name!r}")
            return
        entries = self._offers.get(name, ())
        if not entries:
            raise self._unknown_name_error(name)
        packages = " and ".join(_package(entry) for entry in entries)
        if len(entries) > 1:
            raise SettingsError(
                f"The packages {packages} both offer a {self.kind} {name!r}.", remedy="Uninstall one of them."
            )
        try:
            entries[0].load()
        except Exception as error:
            _log.debug("The package %s cannot be imported.", packages, exc_info=True)
            raise SettingsError(
                f"The {self.kind} {name!r} of the package {packages} cannot be used: "
                f"{' '.join(f'{type(error).__name__}: {error}'.split())}.",
                remedy=f"Mend or uninstall {packages}.",
            ) from error
        if name not in self._extensions:
            raise SettingsError(
                f"The package {packages} offers a {self.kind} {name!r}, but {entries[0].value} does not register it.",
                remedy=f"Mend or uninstall {packages}.",
            )

    def _unknown_name_error(self, name: str) -> SettingsError:
        known = list(self)
        near = difflib.get_close_matches(name, known, n=2)
        meant = f"Did you mean {' or '.join(near)}? " if near else ""
        return SettingsError(f"No {self.kind} is called {name!r}.", remedy=f"{meant}Known: {', '.join(known)}.")

    def _report(self, line: str) -> None:
        if line not in self._reported:
            self._reported.add(line)
            _log.warning("%s", line)


def explain_mistake(error: Exception) -> tuple[str, str]:
    """Says what to tell about an error that nobody raised on purpose: the message, and what to do next.

    Where code of another package's extension was running, that package is named, because its author can mend it.
    """
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    groups = [group for group in entry_points().groups if group.startswith("beliefrag.")]
    offered = {entry.module.partition(".")[0] for group in groups for entry in entry_points(group=group)}
    running = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in walk_tb(error.__traceback__)]
    if package := next((name for name in reversed(running) if name in offered - {"beliefrag"}), None):
        return f"The extension package {package} failed, {what}.", "Run again with --debug to see where."
    return f"Internal error, {what}.", "Run again with --debug and report what it prints."


def _itself(target: object) -> Callable[[Any, Any], Any]:
    """Builds an extension whose class is its own options: it gives the options back."""

    def build(options: Any, inputs: Any) -> Any:
        return options

    build.__module__ = str(getattr(target, "__module__", ""))
    return build


def _default(option: Any) -> Any:
    return option.default_factory() if option.default is MISSING else option.default


def _as_text(values: Mapping[str, Any]) -> str:
    return ",".join(
        f"{key}={'+'.join(map(str, value)) if isinstance(value, tuple | list) else value}"
        for key, value in values.items()
    )


def _module(target: object) -> str:
    return str(getattr(target, "__module__", "an unknown module"))


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value
