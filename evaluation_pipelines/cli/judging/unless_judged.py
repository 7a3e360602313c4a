"""End of a command that judges while another process does."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from evaluation_pipelines.cli.conventions import NOTHING
from evaluation_pipelines.cli.output import one_line, print_error
from evaluation_pipelines.storage.lock import JUDGE, LockTimeoutError


@contextmanager
def unless_judged() -> Iterator[None]:
    """Exit with 3 if another process judges, and name it: one judge works at a time."""
    try:
        yield
    except LockTimeoutError as busy:
        if busy.name != JUDGE:
            raise
        print_error(f"error: {one_line(busy.holder)} is judging: try again when it has ended")
        raise typer.Exit(NOTHING) from None
