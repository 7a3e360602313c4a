"""Engine of a Ray cluster: every request is a task with retries. Only this module knows Ray."""

import logging
import pickle
import signal
import socket
from collections import deque
from collections.abc import Collection, Generator, Iterable
from concurrent.futures import Future
from contextlib import closing
from threading import current_thread, main_thread
from time import monotonic
from types import TracebackType
from typing import Any, Self, cast

import ray
from grpc import RpcError  # type: ignore[import-untyped] # grpcio has no types
from ray.exceptions import RayError

from evaluation_pipelines.engine.work import (
    EngineError,
    Request,
    Result,
    Shared,
    Work,
    in_order,
    program_version,
)

MAX_RETRIES = 5
"""Times that a task is run again after its process or node was killed."""

NO_NODE_S = 60.0
"""Seconds to wait for a node when the cluster has none that runs tasks."""

_FEWEST_IN_FLIGHT = 4
_LISTENS_S = 5.0
_ENDS_S = 10.0

_log = logging.getLogger(__name__)


class RayEngine:
    """Runs work as tasks of a cluster.

    Args:
        address: Of a Ray client server, ``ray://<host>:<port>``; without it the cluster that
            ``RAY_ADDRESS`` names, or one that is started on this machine and ended with the engine.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._began = False
        self._sigterm = signal.getsignal(signal.SIGTERM)
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
            self._sigterm = signal.getsignal(signal.SIGTERM)
            ray.init(self._address, log_to_driver=False, configure_logging=False)
            if callable(self._sigterm):
                _handle_sigterm(self._sigterm)
        except (OSError, RuntimeError) as error:
            reason = f"{error}".strip().rpartition("\n")[2]  # a traceback can be before it
            raise EngineError(
                f"The Ray cluster {self._address or ''} cannot be used: {reason}. Check that it "
                "runs and that EVAL_ENGINE or RAY_ADDRESS names it. EVAL_ENGINE=local needs none."
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
            _handle_sigterm(self._sigterm)

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
        begun = deque[Any]()
        self._lonely_since = None

        def begin(request: Request) -> Future[tuple[bool, Any]]:
            _check_connected()
            begun.append(task.remote(program_version(), function, once, pickle.dumps(request)))
            future: Future[tuple[bool, Any]] = begun[-1].future()
            return future

        try:
            _check_connected()
            function, once = pickle.dumps(work.function), ray.put(pickle.dumps(shared))
            cores = int(ray.cluster_resources().get("CPU", 0))
            limit = max(_FEWEST_IN_FLIGHT, 2 * cores)
            with closing(
                in_order(begin, requests, limit, lambda _: False, watch=self._check_nodes)
            ) as answers:
                for answer in answers:
                    begun.popleft()
                    self._lonely_since = None
                    yield answer
        except (ConnectionError, RpcError) as error:
            raise EngineError(
                f"The connection to the Ray cluster was lost during {work.name}. Nothing of that "
                "step was stored. Check that the cluster runs, then run the step again."
            ) from error
        except RayError as error:
            _end(begun, work.name)
            reason = str(error).partition("\n")[0]
            raise EngineError(
                f"{work.name} was given up by the Ray cluster after {MAX_RETRIES} more attempts: "
                f"{type(error).__name__}: {reason}. Nothing of it was stored. Check the nodes and "
                "their memory, then run the step again."
            ) from error
        except BaseException:  # also a caller that stops early
            _end(begun, work.name)
            raise

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
                "start --address=...), or set EVAL_ENGINE=local. Then run the step again."
            )


def _handle_sigterm(handler: Any) -> None:
    """Set back the handler of SIGTERM, which Ray replaces by one that exits.

    A run that Dagster cancels would count as failed, and a judge run that is ended later would not
    say what it did. Where a program has none, that of Ray stays until the engine is left.
    """
    if handler is not None and current_thread() is main_thread():
        signal.signal(signal.SIGTERM, handler)


def _check_listens(address: str) -> None:
    """Raise an OSError at once if nothing listens: Ray's client would try for half a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), _LISTENS_S).close()


def _check_connected() -> None:
    """Raise an error after a connection was lost: Ray would start a cluster on this machine."""
    if not ray.is_initialized():
        raise ConnectionError("this process is connected to no Ray cluster")


def _end(tasks: Collection[Any], name: str) -> None:
    """Kill tasks whose results will not be used, and wait until they have ended."""
    if not (tasks and ray.is_initialized()):
        return
    try:
        for task in tasks:
            ray.cancel(task, force=True)
        ray.wait([*tasks], num_returns=len(tasks), timeout=_ENDS_S, fetch_local=False)
    except (ConnectionError, RpcError, RayError) as error:  # an error that says more is raised
        _log.warning("tasks %s of the Ray cluster may still run: %s", name, error)


def _answer(version: str, function: bytes, shared: bytes, request: bytes) -> tuple[bool, Any]:
    """Run a request on a node of the cluster; return its result, or its error and False.

    What was sent is read after the version was compared: another one may lack its classes.
    """
    if version != program_version():
        node = ray.util.get_node_ip_address()
        refused = EngineError(
            f"The worker on {node} has version {program_version()} of this program, {version} is "
            "wanted. Install the same version on all nodes, then run the step again."
        )
        return False, refused
    try:
        # All of it was sent by a driver of this cluster, which may run any program here.
        work, *given = (pickle.loads(pickled) for pickled in (function, shared, request))  # noqa: S301
        return True, work(*given)
    except Exception as error:  # noqa: BLE001 - raised again where the result is used
        return False, error
