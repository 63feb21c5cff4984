"""The one place that decides in which order the layers around a model stand."""

from __future__ import annotations

from pathlib import Path

from beliefrag.errors import SettingsError
from beliefrag.models.cache import Cache
from beliefrag.models.limit import Limit
from beliefrag.models.protocol import ChatModel
from beliefrag.models.retry import Retry, RetryPolicy

__all__ = ["compose"]


def compose(
    provider: ChatModel,
    *,
    cache: Path | str | None,
    replay: bool = False,
    retry: RetryPolicy | None = None,
    limit: int = 16,
) -> ChatModel:
    """Gives the model that all episodes of a run share: the cache around the retries around the limit.

    From the outside in:

    - The meter is not here. Each episode puts its own around this stack, outermost, so that a reply from the cache
      costs what it cost when it was made, whoever made it.
    - The cache comes first, so that what was paid for waits for nobody: no permit, no retry. It stores what the
      retries accepted, together with what they wasted, and never a failure.
    - The retries come next, outside the limit: who waits before asking again holds no permit meanwhile, and comes
      back through the same queue as everybody.
    - The limit is next to the provider, so that it sees each 429 and 5xx itself, not only those that were given up on.

    Args:
        provider: The model itself.
        cache: The file of replies; None stores none.
        replay: Answer from the cache alone.
        retry: How long to keep asking.
        limit: The most calls at a time. How many are really made at a time follows the server.

    Raises:
        SettingsError: The cache file cannot be used, or a replay has none.
    """
    model: ChatModel = Retry(Limit(provider, cap=limit), retry)
    if cache is not None:
        return Cache(model, cache, replay=replay)
    if replay:
        raise SettingsError("A replay needs a cache.", remedy="Name the cache file of the run to replay.")
    return model
