"""Puts the layers around a model, in the one order in which they work together."""

from __future__ import annotations

from pathlib import Path

from beliefrag.errors import SettingsError
from beliefrag.models.protocol import ChatModel
from beliefrag.models.with_cache import CachedModel
from beliefrag.models.with_limit import LimitedModel
from beliefrag.models.with_retries import RetryingModel, RetryPolicy

__all__ = ["compose"]


def compose(
    provider: ChatModel,
    *,
    cache: Path | None,
    replay: bool = False,
    retry: RetryPolicy | None = None,
    limit: int = 16,
) -> ChatModel:
    """Gives the model that all episodes of a run share: the cache around the retries around the limit.

    From the outside to the inside, with the reason for each place:

    - The meter is not here. Each episode puts its own `Meter` around this model, as the outermost layer, so that a
      reply from the cache costs what it cost when it was made.
    - The cache comes first, so that a stored reply waits for nothing: no permit, no retry. It stores the reply that the
      retries accepted, together with what they wasted, and never a failure.
    - The retries come next, outside the limit: a call that waits before it is repeated holds no permit in the meantime,
      and then waits in the same queue as all others.
    - The limit is next to the provider, so that it sees every 429 and 5xx, not only those after the last retry.

    Args:
        provider: The model itself.
        cache: The file of stored replies; None stores none.
        replay: Answer from the cache alone.
        retry: How often and how long to repeat failed calls.
        limit: The largest number of calls at a time. The number in use follows the server.

    Raises:
        SettingsError: The cache file cannot be used, or a replay has none.
    """
    model: ChatModel = RetryingModel(LimitedModel(provider, cap=limit), retry)
    if cache is not None:
        return CachedModel(model, cache, replay=replay)
    if replay:
        raise SettingsError("A replay needs a cache.", remedy="Name the cache file of the run to replay.")
    return model
