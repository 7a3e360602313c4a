"""Work, a function that runs in a thread, in another process or on another machine; and engines."""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from evaluation_pipelines.errors import UserError

Shared = TypeVar("Shared")
Request = TypeVar("Request")
Result = TypeVar("Result")


class EngineError(UserError):
    """Work could not be run; the message says which and what to do."""


def _never(_request: object) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Work(Generic[Shared, Request, Result]):
    """A step that only reads, or writes what counts once its caller commits it.

    It may be run twice, and be killed at any time.

    Args:
        function: A function of a module: other processes import it by its name. It takes what all
            requests share, and one request.
        holds_lock: True if it is Python code, so that threads of one process would wait for
            each other.
        is_large: True for a request that may take most of the memory of a machine.
    """

    function: Callable[[Shared, Request], Result]
    holds_lock: bool = False
    is_large: Callable[[Request], bool] = _never

    @property
    def name(self) -> str:
        """Name of the function for people."""
        return self.function.__name__


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
            shared: What each request needs. Threads share it; other processes get a copy.

        Raises:
            EngineError: A worker ended more than once during a request.
            Exception: Any error of the work, in the turn of its request.
        """
