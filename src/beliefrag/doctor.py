"""Checks everything that an answer depends on, for `beliefrag doctor` and for programs.

Each check gives findings; none of them raises, and none changes anything.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import platform
import re
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

from beliefrag.answering.packing import describe_packing
from beliefrag.calibration import RunConditions, find_calibration_warnings, select_artifact
from beliefrag.engine.assembly import choose_verifier
from beliefrag.errors import BeliefRAGError, ReplyError, SettingsError
from beliefrag.methods import plan_search
from beliefrag.models import ChatModel, ChatReply, ChatRequest, Message, open_provider
from beliefrag.models.cache import ReplyStore, reply_store_path
from beliefrag.models.providers import use_server_model
from beliefrag.models.weights import file_hash, resolve, weights_at
from beliefrag.paths import cache_dir
from beliefrag.prompts import Prompts
from beliefrag.retrieval import RETRIEVERS, Bm25Index, docs_index_path, known_identity
from beliefrag.retrieval.indexing import find_files
from beliefrag.settings import Settings, load_settings
from beliefrag.verifiers import DRAFT_FORMS, VERIFIERS, build_verifier

__all__ = [
    "CheckState",
    "Finding",
    "check_cache",
    "check_documents",
    "check_everything",
    "check_installation",
    "check_model",
    "check_settings",
]

_DISTRIBUTION = "beliefrag"
_OLDEST = (3, 11)
_LITTLE_SPACE = 2_000_000_000
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LOCAL = "local:"
_SCRIPTED = "scripted:"
_PATIENCE = 30.0
"""Seconds to wait for an answer of the model server."""


class CheckState(StrEnum):
    """Whether a thing works."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked, its state, and what to do about it."""

    state: CheckState
    name: str
    detail: str
    remedy: str = ""


def _ok(name: str, detail: str) -> Finding:
    """The thing works."""
    return Finding(CheckState.OK, name, detail)


def _warning(name: str, detail: str, remedy: str = "") -> Finding:
    """The thing works, but there is something to know."""
    return Finding(CheckState.WARNING, name, detail, remedy)


def _problem(name: str, error: BeliefRAGError) -> Finding:
    """The thing does not work."""
    return Finding(CheckState.PROBLEM, name, error.message, error.remedy)


def check_everything(
    given: Mapping[str, Any] | None = None,
    *,
    config: Path | None = None,
    docs: Sequence[Path] = (),
    index: Path | None = None,
) -> list[Finding]:
    """Checks the installation, the cache, the settings, the model with what belongs to it, and documents.

    Args:
        given: Settings by name, over those of the files and the environment.
        config: A settings file in place of the one in this folder.
        docs: Documents to look for.
        index: The folder of an index to read.
    """
    settings, finding = check_settings(given or {}, config)
    found = [*check_installation(), *check_cache(), finding]
    try:
        # Where the settings cannot be read, the defaults are checked, and no server.
        known = settings if finding.state is CheckState.PROBLEM else use_server_model(settings)
    except SettingsError as error:
        found.append(_problem("model", error))
    else:
        found += check_model(known)
    return [*found, *check_documents(docs, index)]


def check_settings(typed: Mapping[str, Any], config: Path | None) -> tuple[Settings, Finding]:
    """Reads the settings in force, or takes the defaults where they cannot be used, and says which it did."""
    try:
        loaded = load_settings(typed, config=config)
    except SettingsError as error:
        return Settings.model_validate({}), _problem("settings", error)
    sources = sorted(set(loaded.sources.values()))
    return loaded.settings, _ok("settings", f"from {', '.join(sources)}" if sources else "the defaults")


def check_installation() -> Iterator[Finding]:
    """Checks Python, and every package that this one needs."""
    version = platform.python_version()
    if sys.version_info[:2] < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        yield Finding(CheckState.PROBLEM, "python", version, f"Install Python {oldest} or newer.")
    else:
        yield _ok("python", version)
    yield from map(_check_package, _required_packages())


def _required_packages() -> list[str]:
    needed = [text for text in metadata.requires(_DISTRIBUTION) or () if "extra ==" not in text]
    return sorted(match[0] for text in needed if (match := _NAME.match(text)))


def _check_package(name: str) -> Finding:
    try:
        importlib.import_module(_module_of(name))
        return _ok(name, metadata.version(name))
    except Exception as error:
        # A broken package may raise anything when it is imported; the others are checked all the same.
        detail = f"cannot be imported: {type(error).__name__}: {error}"
        return Finding(CheckState.PROBLEM, name, detail, "Install it again: pip install --force-reinstall " + name)


def _module_of(package: str) -> str:
    """Gives the module that a package is imported by, such as docx for python-docx."""
    usual = package.replace("-", "_")
    if importlib.util.find_spec(usual):
        return usual
    folders = {file.parts[0] for file in metadata.files(package) or () if file.parts[1:] == ("__init__.py",)}
    return min(folders, default=usual)


def check_cache() -> Iterator[Finding]:
    """Checks the cache folder: whether it can be written to, whether there is room, and what is recorded in it."""
    try:
        folder = cache_dir()
    except BeliefRAGError as error:
        yield _problem("cache folder", error)
        return
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if reason := _why_not_writable(there):
        remedy = "Set BELIEFRAG_CACHE_DIR to a folder that can be written to."
        yield Finding(CheckState.PROBLEM, "cache folder", f"{folder}: {reason}", remedy)
    else:
        free = shutil.disk_usage(there).free
        detail = f"{folder}, {free / 1e9:.1f} GB free" + ("" if there == folder else ", not made yet")
        if free < _LITTLE_SPACE:
            yield _warning("cache folder", detail, "Free some space, or set BELIEFRAG_CACHE_DIR to another disk.")
        else:
            yield _ok("cache folder", detail)
    yield _check_replies(reply_store_path())


def _why_not_writable(folder: Path) -> str:
    if not folder.is_dir():
        return "is not a folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "cannot be written to"
    try:
        # Rights are not all: the disk may be full or read-only. The file has no name, so nothing is left behind.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        return f"cannot be written to: {error.strerror}"
    return ""


def _check_replies(path: Path) -> Finding:
    if not path.is_file():
        return _ok("recorded replies", "none yet")
    try:
        with ReplyStore(path, read_only=True) as store:
            by_model = store.count()
    except BeliefRAGError as error:
        return _problem("recorded replies", error)
    except sqlite3.Error as error:
        return Finding(
            CheckState.PROBLEM, "recorded replies", f"{path}: {error}", "Run `beliefrag ask` once: it makes a new one."
        )
    size = path.stat().st_size / 1e6
    return _ok("recorded replies", f"{sum(by_model.values()):,}, from {len(by_model)} models, {size:.1f} MB")


def check_model(settings: Settings) -> Iterator[Finding]:
    """Checks everything that the settings say about the model."""
    prompts = _load_prompts(settings)
    if isinstance(prompts, Finding):
        yield prompts
    form = settings.verifier or ""
    try:
        form = choose_verifier(settings, settings.method)
        build_verifier(form)
    except BeliefRAGError as error:
        yield _problem("verifier", error)
    try:
        if settings.model.startswith(_LOCAL):
            yield _check_weights(settings.model)
        model = open_provider(
            settings.model,
            base_url=settings.base_url,
            timeout=min(settings.timeout, _PATIENCE),
            context=settings.context,
            threads=settings.threads,
            options=settings.models,
        )
        identity = model.identity
    except BeliefRAGError as error:
        yield _problem("model", error)
        return
    yield _ok("model", identity)
    if settings.model.startswith(_SCRIPTED):
        yield _ok("model answers", "not asked: each line of a script answers once")
    else:
        if not settings.model.startswith(_LOCAL):
            yield _check_api_key(settings)
        yield from asyncio.run(
            _ask_model(model, needs_probabilities=VERIFIERS.choose(form).extension.needs_token_probabilities)
        )
    retriever = _find_retriever(settings)
    if isinstance(retriever, Finding):
        yield retriever
        return
    searched = None if retriever is None else describe_packing(retriever, plan_search(settings, settings.method).pack)
    here = RunConditions(identity, form, prompts.hashes() if isinstance(prompts, Prompts) else {}, searched)
    yield _check_calibration(settings, here)


def _find_retriever(settings: Settings) -> str | Finding | None:
    """Gives the identity of the retriever that the settings choose, as far as it is known before anything is opened."""
    try:
        return known_identity(RETRIEVERS.choose(plan_search(settings, settings.method).retriever, settings.retrievers))
    except BeliefRAGError as error:
        return _problem("retriever", error)


def _load_prompts(settings: Settings) -> Prompts | Finding:
    try:
        return Prompts.load(settings.prompts)
    except BeliefRAGError as error:
        return _problem("prompts", error)


def _check_weights(model: str) -> Finding:
    path = resolve(model)
    weights = weights_at(path)
    if weights is None:
        return _ok("weights", f"{path}, a file of your own")
    if file_hash(path) != weights.sha256:
        remedy = f"Delete it, and run 'beliefrag model pull {weights.name}'."
        return Finding(CheckState.PROBLEM, "weights", f"{path} is damaged: its hash is wrong", remedy)
    return _ok("weights", f"{path}, hash {weights.sha256[:16]} is right")


def _check_api_key(settings: Settings) -> Finding:
    if os.environ.get("OPENAI_API_KEY", "").strip():
        return _ok("API key", "OPENAI_API_KEY is set")
    if settings.base_url or os.environ.get("OPENAI_BASE_URL"):
        return _ok("API key", "OPENAI_API_KEY is not set; a server of your own may need none")
    return _warning(
        "API key", "OPENAI_API_KEY is not set", "Set it, or give the --base-url of a server that needs none."
    )


async def _ask_model(model: ChatModel, *, needs_probabilities: bool) -> list[Finding]:
    """Asks for one token, first without and then with probabilities, so that it is clear which of the two fails."""
    try:
        findings = [await _check_answer(model)]
        if findings[0].state is not CheckState.PROBLEM:
            findings.append(await _check_probabilities(model, needed=needs_probabilities))
        return findings
    finally:
        await model.aclose()


async def _check_answer(model: ChatModel) -> Finding:
    began = time.perf_counter()
    try:
        await _request_one_token(model)
    except ReplyError as error:
        # It was reached and it worked; reasoning models say nothing within one token.
        return _warning("model answers", f"in {time.perf_counter() - began:.1f} s, but: {error.message}")
    except BeliefRAGError as error:
        return _problem("model answers", error)
    return _ok("model answers", f"one token in {time.perf_counter() - began:.1f} s")


async def _check_probabilities(model: ChatModel, *, needed: bool) -> Finding:
    name = "token probabilities"
    try:
        reply = await _request_one_token(model, top_logprobs=2)
    except ReplyError:
        reply = None
    except BeliefRAGError as error:
        return _problem(name, error) if needed else _warning(name, error.message)
    if reply is not None and reply.tokens:
        return _ok(name, "given")
    if not needed:
        return _ok(name, "not given; the verifier in use needs none")
    return Finding(
        CheckState.PROBLEM, name, "not given, and the verifier needs them", "Use --set verifier=graded or structured."
    )


async def _request_one_token(model: ChatModel, *, top_logprobs: int = 0) -> ChatReply:
    messages = (Message("user", "Reply with the word yes."),)
    return await model.chat(ChatRequest("doctor", messages, max_tokens=1, top_logprobs=top_logprobs))


def _check_calibration(settings: Settings, here: RunConditions) -> Finding:
    try:
        artifact = select_artifact(
            here,
            calibration=settings.calibration,
            borrow=settings.borrow,
            any_retriever=here.verifier in DRAFT_FORMS,
        )
    except BeliefRAGError as error:
        return _problem("calibration", error)
    if reasons := find_calibration_warnings(artifact, here):
        return _warning("calibration", f"{artifact.name}: {'; '.join(reasons)}.", "Its probabilities may be off.")
    return _ok("calibration", artifact.name)


def check_documents(docs: Sequence[Path], index: Path | None) -> Iterator[Finding]:
    """Checks whether the documents can be found, and whether the index is whole: each of its files is read."""
    if docs:
        yield _check_files(docs)
    if index is not None:
        yield _check_index(index)


def _check_files(docs: Sequence[Path]) -> Finding:
    try:
        found = find_files(docs, leave_out=docs_index_path(docs, cache_dir()))
    except BeliefRAGError as error:
        return _problem("documents", error)
    if not found.files:
        return Finding(
            CheckState.PROBLEM, "documents", "no file of a format that is read", "Name other files or folders."
        )
    detail = f"{len(found.files):,} file{'' if len(found.files) == 1 else 's'}"
    if found.skipped:
        first = found.skipped[0]
        detail += f", {len(found.skipped):,} skipped (first: {first.path} {first.reason})"
        return _warning("documents", detail, "'beliefrag index' lists all that is skipped.")
    return _ok("documents", detail)


def _check_index(index: Path) -> Finding:
    try:
        opened = Bm25Index.open(index)
    except BeliefRAGError as error:
        return _problem("index", error)
    if not len(opened):
        return Finding(CheckState.PROBLEM, "index", f"{index} is empty", "Build it with 'beliefrag index'.")
    return _ok("index", f"{index}, {len(opened):,} passages, fingerprint {opened.fingerprint}")
