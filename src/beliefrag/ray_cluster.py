"""Join a Ray cluster, or start a small one on this machine, for runs and for indexing."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import cycle
from typing import Any, NamedTuple

from beliefrag.errors import BeliefRAGError, SettingsError, explain_missing_extra

RETRIES = 20
"""How often Ray makes a call again whose worker has died; some are made before it notices the death of a node."""
_OBJECT_STORE_BYTES = 256 * 1024 * 1024
_LOGS = "See Ray's log files; memory is the usual reason. Then give the same command again; what is done is kept."


class ClusterError(BeliefRAGError):
    """The Ray cluster cannot be joined, or it is gone."""


class ClusterNode(NamedTuple):
    """A machine of the cluster that is alive."""

    id: str
    host: str
    processors: int

    @property
    def is_here(self) -> bool:
        """Whether it is on the machine of this process."""
        return self.host == socket.gethostname()


@dataclass(frozen=True)
class RayCluster:
    """A cluster that this process belongs to, with the module of Ray."""

    ray: Any

    def nodes(self) -> list[ClusterNode]:
        """Return the nodes that are alive, each with the processors that Ray may use there."""
        return sorted(
            ClusterNode(node["NodeID"], node["NodeManagerHostname"], int(node["Resources"].get("CPU", 0)))
            for node in self.ray.nodes()
            if node["Alive"]
        )

    @contextlib.contextmanager
    def start_workers(
        self, kind: type, arguments: Sequence[Any], places: Iterable[ClusterNode], *, calls_at_once: int = 1
    ) -> Iterator[list[Any]]:
        """Start processes that serve the methods of a class; one that dies is started again with its calls.

        They are actors: Ray 2.60 keeps the processor of a finished task, which leaves all later tasks waiting.
        """
        strategies = import_module("ray.util.scheduling_strategies")
        # No processor is taken from Ray's account: if nodes die, the others take over their workers.
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": RETRIES, "max_concurrency": calls_at_once}
        remote = self.ray.remote(kind)
        workers = [
            remote.options(
                scheduling_strategy=strategies.NodeAffinitySchedulingStrategy(place.id, soft=True), **options
            ).remote(*arguments)
            for place in places
        ]
        try:
            yield workers
        finally:
            for worker in workers:
                with contextlib.suppress(self.ray.exceptions.RayError):
                    self.ray.kill(worker)

    @contextlib.contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise the errors of workers as they were raised there, and those of Ray as `ClusterError`."""
        errors = self.ray.exceptions
        try:
            yield
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            raise ClusterError(f"Workers of Ray keep dying ({type(error).__name__}).", remedy=_LOGS) from None


class TaskWorker:
    """Applies functions in a process of the cluster."""

    def apply(self, function: Callable[[Any], Any], item: Any) -> Any:
        """Return the function's result."""
        return function(item)


@contextlib.contextmanager
def open_ray_map(on: str) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]]:
    """Join a cluster for the length of a `with` block and return a `map` that works ahead on its processors."""
    with join_cluster(on) as cluster:
        nodes = cluster.nodes()
        places = [node for node in nodes for _ in range(node.processors)] or nodes
        with cluster.start_workers(TaskWorker, (), places) as workers:

            def map_items(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
                ahead: deque[Any] = deque()
                with cluster.explain_errors():
                    for worker, item in zip(cycle(workers), items, strict=False):
                        ahead.append(worker.apply.remote(function, item))
                        if len(ahead) >= 2 * len(workers):
                            yield cluster.ray.get(ahead.popleft())
                    while ahead:
                        yield cluster.ray.get(ahead.popleft())

            yield map_items


def check_place(on: str) -> str | None:
    """Return the address in `ray` or `ray:ADDRESS`, or raise `SettingsError`; None for a cluster that starts here."""
    name, colon, address = on.partition(":")
    if name != "ray" or (colon and not address):
        raise SettingsError(f"Nothing runs on {on!r}.", remedy="Known: ray, which starts here, and ray:ADDRESS.")
    return address or None


@contextlib.contextmanager
def join_cluster(on: str) -> Iterator[RayCluster]:
    """Join the cluster at `ray:ADDRESS`, start one here for `ray`, or stay in one, and leave it at the end."""
    address = check_place(on)
    # By default its workers give way to all other processes.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")
    with explain_missing_extra("--on ray", "ray"):
        ray = import_module("ray")
    if ray.is_initialized():
        yield RayCluster(ray)
        return
    _connect(ray, address)
    try:
        yield RayCluster(ray)
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    given: dict[str, Any] = {"address": address or "local", "log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        given |= {"include_dashboard": False, "object_store_memory": _OBJECT_STORE_BYTES}
    # Ray replaces our signal handler.
    before = signal.getsignal(signal.SIGTERM)
    try:
        try:
            ray.init(**given)
        except ValueError:
            raise  # The address is invalid.
        except Exception:
            # Once more: Ray gives a busy machine only half a minute.
            ray.shutdown()
            ray.init(**given)
    except Exception as error:
        where = f"The Ray cluster at {address} cannot be joined" if address else "Ray cannot be started here"
        raise ClusterError(
            f"{where}: {str(error).splitlines()[0][:200]}",
            remedy="Check the address and that the cluster runs." if address else "See Ray's log files.",
        ) from error
    finally:
        with contextlib.suppress(ValueError, TypeError):  # not in the main thread
            signal.signal(signal.SIGTERM, before)
    # Nodes report to standard output, which is for results, in spite of `log_to_driver`.
    inner: Any = import_module("ray._private.worker")
    inner.print_to_stdstream = lambda *_, **__: None
