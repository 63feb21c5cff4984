"""Check everything that an answer depends on, for `beliefrag doctor` and for programs.

Each check returns findings; none of them raises. Nothing changes but what is known of the model's server.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

from beliefrag.answering.packing import describe_packing
from beliefrag.calibration import RunConditions, find_calibration_warnings, select_artifact
from beliefrag.errors import BeliefRAGError, ReplyError, SettingsError
from beliefrag.methods import plan_search
from beliefrag.models import ChatModel, ChatReply, ChatRequest, Message, open_provider
from beliefrag.models.capabilities import Capabilities, keep_learned, learned_path, read_learned
from beliefrag.models.providers import use_server_model
from beliefrag.models.weights import file_hash, resolve, weights_at
from beliefrag.opening import choose_verifier
from beliefrag.prompts import Prompts
from beliefrag.retrieval import RETRIEVERS, known_identity
from beliefrag.settings import Settings, cache_dir, load_settings
from beliefrag.verifiers import DRAFT_FORMS, VERIFIERS, build_verifier

_LITTLE_SPACE = 2_000_000_000
_TIMEOUT_SECONDS = 30.0


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
    return Finding(CheckState.OK, name, detail)


def _warning(name: str, detail: str, remedy: str = "") -> Finding:
    return Finding(CheckState.WARNING, name, detail, remedy)


def _problem(name: str, error: BeliefRAGError) -> Finding:
    return Finding(CheckState.PROBLEM, name, error.message, error.remedy)


def check_everything(
    given: Mapping[str, Any] | None = None, *, config: Path | None = None, forget: bool = False
) -> list[Finding]:
    """Check the cache folder, the settings, and the model; with `forget` learn anew what its server takes."""
    found = [
        _ok("beliefrag", f"{metadata.version('beliefrag')}, Python {platform.python_version()}"),
        _check_cache_folder(),
    ]
    settings: Settings | None = None
    try:
        loaded = load_settings(given, config=config)
        sources = ", ".join(sorted(set(loaded.sources.values())))
        found.append(_ok("settings", f"from {sources}" if sources else "the defaults"))
        settings = loaded.settings
    except SettingsError as error:
        found.append(_problem("settings", error))
    try:
        # If the settings are invalid, the defaults are checked, and no server.
        found += _check_model(use_server_model(settings) if settings else Settings.model_validate({}), forget=forget)
    except SettingsError as error:
        found.append(_problem("model", error))
    return found


def _check_cache_folder() -> Finding:
    folder = cache_dir()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        # Rights are not all: the disk may be full or read-only. The file has no name, so nothing is left behind.
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(b"\0" * 4096)
    except OSError as error:
        remedy = "Set BELIEFRAG_CACHE_DIR to a folder that can be written to."
        return Finding(CheckState.PROBLEM, "cache folder", f"{folder} cannot be written to: {error.strerror}", remedy)
    free = shutil.disk_usage(there).free
    detail = f"{folder}, {free / 1e9:.1f} GB free" + ("" if there == folder else ", not made yet")
    if free < _LITTLE_SPACE:
        return _warning("cache folder", detail, "Free some space, or set BELIEFRAG_CACHE_DIR to another disk.")
    return _ok("cache folder", detail)


def _check_model(settings: Settings, *, forget: bool) -> Iterator[Finding]:
    """Check everything that the settings say about the model."""
    prompts: Mapping[str, str] = {}
    try:
        prompts = Prompts.load(settings.prompts).hashes()
    except BeliefRAGError as error:
        yield _problem("prompts", error)
    form = settings.verifier or ""
    try:
        form = choose_verifier(settings, settings.method, replay=True)
        build_verifier(form)
    except BeliefRAGError as error:
        yield _problem("verifier", error)
    is_local = settings.is_embedded
    try:
        if is_local:
            yield _check_weights(settings.model)
        model = open_provider(
            settings.model,
            base_url=settings.base_url,
            timeout=min(settings.timeout, _TIMEOUT_SECONDS),
            context=settings.context,
            threads=settings.threads,
            options=settings.models,
        )
        identity = model.identity
    except BeliefRAGError as error:
        yield _problem("model", error)
        return
    yield _ok("model", identity)
    if settings.model.startswith("scripted:"):
        yield _ok("model answers", "not asked: each line of a script answers once")
    else:
        if not is_local:
            yield _check_api_key(settings)
            if forget:
                keep_learned(learned_path(), identity, None)
        needed = VERIFIERS.choose(form).extension.needs_token_probabilities
        yield from asyncio.run(_ask_model(model, needs_probabilities=needed, max_tokens=1 if is_local else None))
        if (known := read_learned(learned_path()).get(identity)) is not None:
            yield _describe_learned(known)
    search = plan_search(settings, settings.method)
    try:
        retriever = known_identity(RETRIEVERS.choose(search.retriever, settings.retrievers))
    except BeliefRAGError as error:
        yield _problem("retriever", error)
        return
    searched = None if retriever is None else describe_packing(retriever, search.pack, settings.rules)
    here = RunConditions(identity, form, prompts, searched)
    yield _check_calibration(settings, here)


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


def _describe_learned(known: Capabilities) -> Finding:
    losses = known.describe_losses()
    detail = f"does not take {losses}" if losses else "takes everything that was asked of it"
    detail += "; the model thinks before it answers" if known.thinks else ""
    return _ok("server", f"{detail}; --forget tries again" if losses or known.thinks else detail)


async def _ask_model(model: ChatModel, *, needs_probabilities: bool, max_tokens: int | None) -> list[Finding]:
    """Ask for a word, first without and then with probabilities so that it is clear which of the two fails."""
    try:
        began = time.perf_counter()
        try:
            await _request_word(model, max_tokens)
            answers = _ok("model answers", f"one word in {time.perf_counter() - began:.1f} s")
        except ReplyError as error:
            # It was reached and it worked.
            answers = _warning("model answers", f"in {time.perf_counter() - began:.1f} s, but: {error.message}")
        except BeliefRAGError as error:
            return [_problem("model answers", error)]
        return [answers, await _check_probabilities(model, max_tokens, needed=needs_probabilities)]
    finally:
        await model.aclose()


async def _check_probabilities(model: ChatModel, max_tokens: int | None, *, needed: bool) -> Finding:
    name = "token probabilities"
    try:
        reply = await _request_word(model, max_tokens, top_logprobs=2)
        if reply.tokens:
            return _ok(name, "given")
    except ReplyError:
        pass
    except BeliefRAGError as error:
        return _problem(name, error) if needed else _warning(name, error.message)
    if not needed:
        return _ok(name, "not given; the verifier in use needs none")
    remedy = "Use --set verifier=graded or structured."
    return Finding(CheckState.PROBLEM, name, "not given, and the verifier needs them", remedy)


async def _request_word(model: ChatModel, max_tokens: int | None, *, top_logprobs: int = 0) -> ChatReply:
    messages = (Message("user", "Reply with the word yes."),)
    return await model.chat(ChatRequest("answer", messages, max_tokens=max_tokens, top_logprobs=top_logprobs))


def _check_calibration(settings: Settings, here: RunConditions) -> Finding:
    try:
        artifact = select_artifact(
            here, calibration=settings.calibration, borrow=settings.borrow, any_retriever=here.verifier in DRAFT_FORMS
        )
    except BeliefRAGError as error:
        return _problem("calibration", error)
    if reasons := find_calibration_warnings(artifact, here):
        remedy = "Its probabilities are estimates; 'beliefrag calibrate auto' fits one."
        return _warning("calibration", f"{artifact.name}: {'; '.join(reasons)}.", remedy)
    return _ok("calibration", artifact.name)
