"""Progress of long steps."""

from typing import Protocol


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
