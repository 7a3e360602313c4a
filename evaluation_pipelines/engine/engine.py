"""Engine: where the work of ingest and build runs."""

from collections.abc import Generator, Iterable
from types import TracebackType
from typing import Protocol, Self

from evaluation_pipelines.engine.work import Request, Result, Shared, Work


class Engine(Protocol):
    """Workers, started when they are first needed and ended with the ``with`` block."""

    def __enter__(self) -> Self:
        """Return the engine."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the workers."""

    def run(
        self, work: Work[Shared, Request, Result], requests: Iterable[Request], shared: Shared
    ) -> Generator[tuple[Request, Result], None, None]:
        """Yield each request with its result, in the order of the requests.

        Few requests more than there are workers are taken before the first result is; they are
        worked on while the caller uses the results. If the caller stops early, what runs ends
        before the generator is closed.

        Args:
            work: What to do.
            requests: Taken one by one, in the thread of the caller.
            shared: What each request needs. Threads share it; other processes get a copy, once.

        Raises:
            EngineError: A worker ended more than once during a request.
            Exception: Any error of the work, in the turn of its request.
        """
