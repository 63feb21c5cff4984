"""A small Ray cluster of two nodes on this machine, whose workers and nodes tests can kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

_STORE_BYTES = 80 * 1024 * 1024


class RayNodes:
    """The head, which this process belongs to, and a second node."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.address: str = cluster.address
        self._second = self._add_node()

    def kill_second_node(self) -> None:
        """End the second node at once, with all its workers."""
        self._cluster.remove_node(self._second, allow_graceful=False)

    def replace_second_node(self) -> None:
        """Start another node in the place of the one that was killed; only the main thread can."""
        self._second = self._add_node()

    def _add_node(self) -> Any:
        options = {"num_cpus": 1, "object_store_memory": _STORE_BYTES}
        try:
            return self._cluster.add_node(**options)
        except Exception:
            # Ray gives a busy machine half a minute only.
            return self._cluster.add_node(**options)


@contextmanager
def run_ray() -> Iterator[RayNodes]:
    """Run a cluster for the length of a `with` block; this process belongs to it."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray = import_module("ray")
    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": _STORE_BYTES}
    start = import_module("ray.cluster_utils").Cluster
    try:
        cluster = start(initialize_head=True, head_node_args=head)
    except Exception:
        cluster = start(initialize_head=True, head_node_args=head)
    try:
        nodes = RayNodes(cluster)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
        yield nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


def find_workers(kind: str) -> list[int]:
    """Return the processes of this process's cluster that are workers of a kind, such as `EpisodeWorker`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_kind = (process / "cmdline").read_bytes().startswith(f"ray::{kind}".encode())
            # A worker is started by its node, and a node by this process: other clusters are none of our business.
            if is_kind and _find_parent(_find_parent(process)).name == str(os.getpid()):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def _find_parent(process: Path) -> Path:
    # The second field, the name, may hold spaces and stands in brackets.
    return process.with_name((process / "stat").read_text().rpartition(")")[2].split()[1])


def kill_process(process: int) -> None:
    """End a process with SIGKILL, unless it has ended already."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return
