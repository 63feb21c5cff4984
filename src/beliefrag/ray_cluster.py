"""Joins a Ray cluster, or starts a small one on this machine, for runs and for indexing.

Ray is imported here alone, and only when somebody asks for it. The cluster that is started here has no dashboard, sends
no usage statistics and leaves standard output to us.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import cycle
from typing import Any

from beliefrag.errors import BeliefRAGError, SettingsError, explain_missing_extra

__all__ = ["ClusterError", "ClusterNode", "RayCluster", "WorkerPool", "check_place", "join_cluster"]

_NAME = "ray"
_RETRIES = 5
"""How often a task is begun again whose worker has died."""
_OBJECT_STORE_BYTES = 256 * 1024 * 1024
"""What workers exchange is small: episodes and blocks of passages."""


class ClusterError(BeliefRAGError):
    """The Ray cluster cannot be joined, or it is gone."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A machine of the cluster, or a part of one, that is alive."""

    id: str
    host: str
    processors: int

    @property
    def is_here(self) -> bool:
        """Whether it is on the machine of this process."""
        return self.host == socket.gethostname()


class RayCluster:
    """A cluster that this process belongs to.

    Args:
        ray: The module of Ray, as it was imported.
    """

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._own_node: str = ray.get_runtime_context().get_node_id()

    def nodes(self) -> tuple[ClusterNode, ...]:
        """The nodes that are alive, each with the processors that Ray may use there.

        Raises:
            ClusterError: The node of this process is dead: nothing can be started from here any more.
        """
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        if self._own_node not in {node["NodeID"] for node in alive}:
            raise ClusterError(
                "The Ray node that this process belongs to has died.",
                remedy="Give the same command again; what is done is kept.",
            )
        found = (
            ClusterNode(node["NodeID"], node["NodeManagerHostname"], int(node["Resources"].get("CPU", 0)))
            for node in alive
        )
        return tuple(sorted(found, key=lambda node: node.id))

    def start_worker(
        self, kind: type, arguments: Sequence[Any], *, node: ClusterNode, calls_at_once: int, retries: int = 0
    ) -> Any:
        """Starts a process that serves the methods of a class, on a node or, where that one is gone, on another.

        Args:
            kind: The class.
            arguments: What its constructor is given.
            node: Where it shall run.
            calls_at_once: How many of its methods may run at the same time.
            retries: How often Ray makes a call again whose process has died. With 0 Ray starts no process again:
                whoever uses it does, and knows what was under way.
        """
        strategies = import_module("ray.util.scheduling_strategies")
        place = strategies.NodeAffinitySchedulingStrategy(node.id, soft=True)
        # It takes no processor from Ray's account: should nodes die, those that are left take over their workers.
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": 0, "max_concurrency": calls_at_once}
        if retries:
            options |= {"max_restarts": -1, "max_task_retries": retries}
        return self.ray.remote(kind).options(scheduling_strategy=place, **options).remote(*arguments)

    @contextlib.contextmanager
    def start_pool(self) -> Iterator[WorkerPool]:
        """Starts one worker for each processor, each of which applies functions to what it is given."""
        pool = WorkerPool(self)
        try:
            yield pool
        finally:
            pool.close()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Applies a function to each item on the workers, some items ahead, and gives the results in their order.

        A worker that dies is replaced, and its item is done again.

        Raises:
            ClusterError: Workers keep dying, or the cluster is gone.
        """
        with self.start_pool() as pool:
            yield from self.map_on(pool, function, items)

    def map_on(self, pool: WorkerPool, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Does the same on workers that were started before, each of which keeps what it has loaded.

        Raises:
            ClusterError: Workers keep dying, or the cluster is gone.
        """
        ahead: deque[Any] = deque()
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) >= pool.most_ahead:
                yield self.get(ahead.popleft())
        while ahead:
            yield self.get(ahead.popleft())

    def get(self, reference: Any) -> Any:
        """Waits for what a worker makes.

        Raises:
            ClusterError: Workers keep dying, or the cluster is gone.
        """
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError:
            # The function itself failed.
            raise
        except self.ray.exceptions.RayError as error:
            self.nodes()
            raise ClusterError(
                f"Workers of Ray keep dying ({type(error).__name__}).",
                remedy="See Ray's log files; memory is the usual reason. Then give the same command again; what is "
                "done is kept.",
            ) from None


class TaskWorker:
    """Applies functions to whatever it is given, in a process of a cluster."""

    def apply(self, function: Callable[[Any], Any], item: Any) -> Any:
        """The function's result."""
        return function(item)


class WorkerPool:
    """Workers that apply functions, an item to each in turn.

    They are actors, not tasks: Ray 2.60 was seen to keep the processor of a finished task for itself, which left all
    that came later waiting for ever.
    """

    def __init__(self, cluster: RayCluster) -> None:
        self._ray = cluster.ray
        places = [node for node in cluster.nodes() for _ in range(node.processors)] or list(cluster.nodes())
        self._workers = [
            cluster.start_worker(TaskWorker, (), node=node, calls_at_once=1, retries=_RETRIES) for node in places
        ]
        self._turns = cycle(self._workers)
        self.size = len(self._workers)
        """How many workers there are."""
        self.most_ahead = 2 * self.size
        """How many items are worth being under way at once."""

    def submit(self, function: Callable[[Any], Any], item: Any) -> Any:
        """Lets the next worker apply a function to an item; what is returned stands for the result."""
        return next(self._turns).apply.remote(function, item)

    def close(self) -> None:
        """Ends the workers, and whatever they are at."""
        for worker in self._workers:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(worker)


def check_place(on: str) -> str | None:
    """The address in `ray` or `ray:ADDRESS`; None for a cluster of this machine's own.

    Raises:
        SettingsError: It is neither.
    """
    name, colon, address = on.partition(":")
    if name != _NAME or (colon and not address):
        raise SettingsError(f"Nothing runs on {on!r}.", remedy="Known: ray, which starts here, and ray:ADDRESS.")
    return address or None


@contextlib.contextmanager
def join_cluster(on: str) -> Iterator[RayCluster]:
    """Joins the cluster at `ray:ADDRESS`, or starts one on this machine for `ray`, and leaves it at the end.

    A process that belongs to a cluster already uses that one, and stays in it.

    Raises:
        SettingsError: The name is not known.
        MissingExtra: Ray is not installed.
        ClusterError: There is no cluster at that address, or none can be started here.
    """
    address = check_place(on)
    # Read by Ray when it starts. Its workers would give way to everything else; here they are what the command is for.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")
    with explain_missing_extra("--on ray", "ray"):
        ray = import_module(_NAME)
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
    # Ray puts a handler of its own in place of ours.
    before = signal.getsignal(signal.SIGTERM)
    try:
        _try_twice(ray, given)
    except Exception as error:
        # Ray raises whatever its parts raise, and `Exception` itself where a node does not come up in time.
        where = f"The Ray cluster at {address} cannot be joined" if address else "Ray cannot be started here"
        raise ClusterError(
            f"{where}: {str(error).splitlines()[0][:200]}",
            remedy="Check the address and that the cluster runs." if address else "See Ray's log files.",
        ) from error
    finally:
        with contextlib.suppress(ValueError, TypeError):  # not in the main thread
            signal.signal(signal.SIGTERM, before)
    # What nodes report of themselves goes to standard output, which is for results, whatever Ray is told about its
    # logs. A death is told by whoever notices that something has to be done again.
    inner: Any = import_module("ray._private.worker")
    inner.print_to_stdstream = _ignore_report


def _try_twice(ray: Any, given: Mapping[str, Any]) -> None:
    """Starts or joins a cluster; once more where it failed, since Ray gives a busy machine half a minute only."""
    try:
        ray.init(**given)
    except ValueError:
        # The address is none.
        raise
    except Exception:
        ray.shutdown()
        ray.init(**given)


def _ignore_report(*_: object, **__: object) -> None:
    pass
