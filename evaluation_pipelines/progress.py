"""Progress of long steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Protocol

_listeners: list[tuple[int, Callable[[], None]]] = []
"""Thread whose work is followed, and what is called when it goes on."""


@contextmanager
def followed(listener: Callable[[], None]) -> Iterator[None]:
    """Call ``listener`` whenever this thread notes progress within the block."""
    entry = get_ident(), listener
    _listeners.append(entry)
    try:
        yield
    finally:
        _listeners.remove(entry)


def note_progress() -> None:
    """Note that the work of this thread goes on; call it between transactions."""
    for thread_id, listener in [*_listeners]:
        if thread_id == get_ident():
            listener()


class Progress(Protocol):
    """Display of the progress of one step: a bar in the terminal, log lines in Dagster."""

    def begin(self, what: str, total: int) -> None:
        """Start a step of ``total`` units."""

    def advance(self, units: int) -> None:
        """Advance the progress by ``units``."""

    def tell(self, detail: str) -> None:
        """Show another fact, such as the money spent."""


class Silent:
    """Progress that shows nothing."""

    def begin(self, what: str, total: int) -> None:
        """Do nothing."""

    def advance(self, units: int) -> None:
        """Do nothing."""

    def tell(self, detail: str) -> None:
        """Do nothing."""
