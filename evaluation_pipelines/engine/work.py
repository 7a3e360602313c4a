"""Work of an engine: a function that runs in a thread, in another process or on another machine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

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
