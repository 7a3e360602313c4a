"""Engine of a Ray cluster: every request is a task with retries. Only this module knows Ray."""

import signal
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import current_thread, main_thread
from time import monotonic
from types import TracebackType
from typing import Any, Self, cast

import ray
from grpc import RpcError  # type: ignore[import-untyped] # grpcio has no types
from ray.exceptions import RayError

from evaluation_pipelines.engine.in_order import in_order
from evaluation_pipelines.engine.version import program_version
from evaluation_pipelines.engine.work import EngineError, Request, Result, Shared, Work

MAX_RETRIES = 5
"""Times that a task is run again after its process or node was killed."""

NO_NODE_S = 60.0
"""Seconds to wait for a node when the cluster has none that runs tasks."""

_FEWEST_IN_FLIGHT = 4
_LISTENS_S = 5.0


class RayEngine:
    """Runs work as tasks of a cluster.

    Args:
        address: Of a Ray client server, ``ray://<host>:<port>``; without it the cluster that
            ``RAY_ADDRESS`` names, or one that is started on this machine and ended with the engine.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._began = False
        self._lonely_since: float | None = None

    def __enter__(self) -> Self:
        """Connect to the cluster, unless this process is connected already.

        Raises:
            EngineError: It cannot be reached.
        """
        if ray.is_initialized():
            return self
        try:
            if self._address is not None:
                _check_listens(self._address)
            with _own_sigterm():
                ray.init(self._address, log_to_driver=False, configure_logging=False)
        except (OSError, RuntimeError) as error:
            reason = f"{error}".strip().rpartition("\n")[2]  # a traceback can be before it
            raise EngineError(
                f"The Ray cluster {self._address or ''} cannot be used: {reason}. Check that it "
                "runs and that EVAL_ENGINE or RAY_ADDRESS names it; EVAL_ENGINE=local needs none."
            ) from error
        self._began = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the cluster."""
        if self._began:
            ray.shutdown()

    def run(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, Result], None, None]:
        """Yield each request with its result; see ``Engine.run``."""
        answered = self._answered(work, requests, shared)
        try:
            for request, (is_result, answer) in answered:
                if not is_result:
                    raise cast(Exception, answer)
                yield request, cast(Result, answer)
        finally:
            answered.close()

    def _answered(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, tuple[bool, Any]], None, None]:
        """Yield each request with its answer; errors of the cluster itself are EngineErrors."""
        task = ray.remote(_answer).options(
            num_cpus=1, max_retries=MAX_RETRIES, name=f"evaluation_pipelines.{work.name}"
        )
        try:
            _check_connected()
            once = ray.put(shared)
            cores = int(ray.cluster_resources().get("CPU", 0))
            yield from in_order(
                lambda request: _begun(task, work.function, once, request),
                requests,
                max(_FEWEST_IN_FLIGHT, 2 * cores),
                lambda _: False,
                watch=self._check_nodes,
            )
        except (ConnectionError, RpcError) as error:
            raise EngineError(
                f"The connection to the Ray cluster was lost during {work.name}. Nothing of that "
                "step was stored. Check that the cluster runs, then run the step again."
            ) from error
        except RayError as error:
            reason = str(error).partition("\n")[0]
            raise EngineError(
                f"{work.name} was given up by the Ray cluster after {MAX_RETRIES} more attempts: "
                f"{type(error).__name__}: {reason}. Nothing of it was stored. Check the nodes and "
                "their memory, then run the step again."
            ) from error

    def _check_nodes(self) -> None:
        """Raise an error if no node has run tasks for too long: Ray itself would wait for ever."""
        _check_connected()
        try:
            nodes = ray.nodes()
        except (RpcError, ValueError):  # a client that connects again, or gives up before long
            return
        if any(node["Alive"] and node["Resources"].get("CPU") for node in nodes):
            self._lonely_since = None
            return
        now = monotonic()
        self._lonely_since = self._lonely_since or now
        if now - self._lonely_since > NO_NODE_S:
            raise EngineError(
                f"The Ray cluster has had no node with a CPU for {NO_NODE_S:g} s. Start nodes (ray "
                "start --address=...), or set EVAL_ENGINE=local; then run the step again."
            )


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep the handler of SIGTERM that a program has set.

    Ray replaces it by one that exits: a run that Dagster cancels would count as failed.
    """
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if callable(handler) and current_thread() is main_thread():
        signal.signal(signal.SIGTERM, handler)


def _check_listens(address: str) -> None:
    """Raise an OSError at once if nothing listens: Ray's client would try for half a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _LISTENS_S).close()


def _check_connected() -> None:
    """Raise an error after a connection was lost: Ray would start a cluster on this machine."""
    if not ray.is_initialized():
        raise ConnectionError("this process is connected to no Ray cluster")


def _begun(
    task: Any, function: Callable[[Any, Any], Any], shared: Any, request: object
) -> Future[tuple[bool, Any]]:
    _check_connected()
    future: Future[tuple[bool, Any]] = task.remote(
        program_version(), function, shared, request
    ).future()
    return future


def _answer(
    version: str, function: Callable[[Any, Any], Any], shared: object, request: object
) -> tuple[bool, Any]:
    """Run a request on a node of the cluster; return its result, or its error and False."""
    if version != program_version():
        node = ray.util.get_node_ip_address()
        refused = EngineError(
            f"The worker on {node} has version {program_version()} of this program, {version} is "
            "wanted. Install the same version on all nodes, then run the step again."
        )
        return False, refused
    try:
        return True, function(shared, request)
    except Exception as error:  # noqa: BLE001 - raised again where the result is used
        return False, error
