"""The model: is it there, does it answer, does it give probabilities, and was a calibration fitted for it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

from beliefrag.calibration import Circumstances, artifact_for, doubts
from beliefrag.cli.checkup.finding import Finding, State, fine, problem, warning
from beliefrag.errors import BeliefRAGError, ReplyError
from beliefrag.models import ChatModel, ChatReply, ChatRequest, Message, default_verifier, open_provider
from beliefrag.models.weights.fingerprint import fingerprint
from beliefrag.models.weights.store import kept_at, resolve
from beliefrag.prompts import Prompts
from beliefrag.retrieval import Bm25Index
from beliefrag.settings import Settings
from beliefrag.verifiers import verifier_form

__all__ = ["check_model"]

_LOCAL = "local:"
_SCRIPTED = "scripted:"
_PATIENCE = 30.0
"""Seconds after which a server that does not answer counts as one that does not."""


def check_model(settings: Settings) -> Iterator[Finding]:
    """Everything that the settings say about the model."""
    prompts = _prompts(settings)
    if isinstance(prompts, Finding):
        yield prompts
    form = settings.verifier or default_verifier(settings.model)
    try:
        verifier_form(form)
    except BeliefRAGError as error:
        yield problem("verifier", error)
    try:
        if settings.model.startswith(_LOCAL):
            yield _weights(settings.model)
        model = open_provider(
            settings.model,
            base_url=settings.base_url,
            timeout=min(settings.timeout, _PATIENCE),
            context=settings.context,
            threads=settings.threads,
        )
        identity = model.identity
    except BeliefRAGError as error:
        yield problem("model", error)
        return
    yield fine("model", identity)
    if settings.model.startswith(_SCRIPTED):
        yield fine("model answers", "not asked: each line of a script answers once")
    else:
        if not settings.model.startswith(_LOCAL):
            yield _key(settings)
        yield from asyncio.run(_asked(model, needs_probabilities=form == "probability"))
    yield _calibration(settings, identity, form, prompts if isinstance(prompts, Prompts) else None)


def _prompts(settings: Settings) -> Prompts | Finding:
    try:
        return Prompts.load(settings.prompts)
    except BeliefRAGError as error:
        return problem("prompts", error)


def _weights(model: str) -> Finding:
    path = resolve(model)
    weights = kept_at(path)
    if weights is None:
        return fine("weights", f"{path}, a file of your own")
    if fingerprint(path) != weights.sha256:
        remedy = f"Run 'beliefrag model remove {weights.name}' and 'beliefrag model pull {weights.name}'."
        return Finding(State.PROBLEM, "weights", f"{path} is damaged: its hash is wrong", remedy)
    return fine("weights", f"{path}, hash {weights.sha256[:16]} is right")


def _key(settings: Settings) -> Finding:
    if os.environ.get("OPENAI_API_KEY", "").strip():
        return fine("API key", "OPENAI_API_KEY is set")
    if settings.base_url or os.environ.get("OPENAI_BASE_URL"):
        return fine("API key", "OPENAI_API_KEY is not set; a server of one's own may need none")
    return warning(
        "API key", "OPENAI_API_KEY is not set", "Set it, or give the --base-url of a server that needs none."
    )


async def _asked(model: ChatModel, *, needs_probabilities: bool) -> list[Finding]:
    """Asks for one token, first without and then with probabilities, so that it is clear which of the two fails."""
    try:
        findings = [await _answers(model)]
        if findings[0].state is not State.PROBLEM:
            findings.append(await _probabilities(model, needed=needs_probabilities))
        return findings
    finally:
        await model.aclose()


async def _answers(model: ChatModel) -> Finding:
    began = time.perf_counter()
    try:
        await _one_token(model)
    except ReplyError as error:
        # It was reached and it worked; reasoning models say nothing within one token.
        return warning("model answers", f"in {time.perf_counter() - began:.1f} s, but: {error.message}")
    except BeliefRAGError as error:
        return problem("model answers", error)
    return fine("model answers", f"one token in {time.perf_counter() - began:.1f} s")


async def _probabilities(model: ChatModel, *, needed: bool) -> Finding:
    name = "token probabilities"
    try:
        reply = await _one_token(model, top_logprobs=2)
    except ReplyError:
        reply = None
    except BeliefRAGError as error:
        return problem(name, error) if needed else warning(name, error.message)
    if reply is not None and reply.tokens:
        return fine(name, "given")
    if not needed:
        return fine(name, "not given; the verifier in use needs none")
    return Finding(
        State.PROBLEM, name, "not given, and the verifier needs them", "Use --verifier graded or structured."
    )


async def _one_token(model: ChatModel, *, top_logprobs: int = 0) -> ChatReply:
    messages = (Message("user", "Reply with the word yes."),)
    return await model.chat(ChatRequest("doctor", messages, max_tokens=1, top_logprobs=top_logprobs))


def _calibration(settings: Settings, identity: str, form: str, prompts: Prompts | None) -> Finding:
    here = Circumstances(identity, form, prompts.hashes() if prompts else {}, Bm25Index.identity)
    try:
        artifact = artifact_for(here, calibration=settings.calibration, borrow=settings.borrow)
    except BeliefRAGError as error:
        return problem("calibration", error)
    if reasons := doubts(artifact, here):
        return warning("calibration", f"{artifact.name}: {'; '.join(reasons)}", "Its probabilities may be off.")
    return fine("calibration", artifact.name)
