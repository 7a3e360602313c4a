"""How a long step tells how far it is."""

from typing import Protocol


class Progress(Protocol):
    """Shows the advance of one step; the terminal draws a bar, Dagster writes log lines."""

    def begin(self, what: str, total: int) -> None:
        """A step of ``total`` units starts."""

    def advance(self, units: int) -> None:
        """So many more units are done."""

    def tell(self, detail: str) -> None:
        """What else is worth knowing by now, such as money spent."""


class Silent:
    """Shows nothing."""

    def begin(self, what: str, total: int) -> None:
        """Nothing."""

    def advance(self, units: int) -> None:
        """Nothing."""

    def tell(self, detail: str) -> None:
        """Nothing."""
