"""A Ray cluster on this machine, and nodes that come and are killed."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest

from evaluation_pipelines_tests.servers.s3 import variables

NODE = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024}


@contextmanager
def running_cluster(**arguments: Any) -> Iterator[Any]:
    """Start a cluster of one node; it and later nodes have the environment of their start."""
    from ray.cluster_utils import Cluster

    head = {**NODE, "include_dashboard": False, **arguments}
    on_sigterm = signal.getsignal(signal.SIGTERM)
    started = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield started
    finally:
        started.shutdown()
        # Each node that is started sets its own, which would stay in the process of the tests.
        signal.signal(signal.SIGTERM, on_sigterm)


@contextmanager
def cluster_with_bucket(endpoint: str) -> Iterator[Any]:
    """Start a cluster whose workers can reach a bucket, and have the engine ``ray`` find it."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables(endpoint).items():
            patched.setenv(name, value)
        with running_cluster() as started:
            patched.setenv("RAY_ADDRESS", started.address)
            yield started


@contextmanager
def nodes(cluster: Any, count: int) -> Iterator[list[Any]]:
    """Add nodes for the block."""
    added = [cluster.add_node(**NODE) for _ in range(count)]
    try:
        yield added
    finally:
        for node in added:
            cluster.remove_node(node, allow_graceful=False)


@contextmanager
def killing(cluster: Any, pause_s: Callable[[], float]) -> Iterator[list[Any]]:
    """Add two nodes, and kill them one after the other without grace during the block."""
    waiting = [cluster.add_node(**NODE) for _ in range(2)]
    killed, stop = list[Any](), Event()

    def work() -> None:
        while waiting and not stop.wait(pause_s()):
            node = waiting.pop()
            cluster.remove_node(node, allow_graceful=False)
            killed.append(node)

    thread = Thread(target=work)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()
        for node in waiting:
            cluster.remove_node(node, allow_graceful=False)
