"""What follows from the current parts of the lake alone: made once for each version of them."""

from collections.abc import Callable
from typing import Generic, TypeVar

from evaluation_pipelines.storage.lake import Lake
from evaluation_pipelines.storage.ledger.manifest import Version

_Value = TypeVar("_Value")


class OfVersion(Generic[_Value]):
    """A value of the version of the lake that was asked for last; its owner keeps threads apart.

    Reading the parts of a table takes milliseconds where there are hundreds of dates, and a page
    asks for them many times.

    Args:
        make: Returns the value of a lake.
    """

    def __init__(self, make: Callable[[Lake], _Value]) -> None:
        self._make = make
        self._known: tuple[Version, _Value] | None = None

    def of(self, lake: Lake) -> _Value:
        """Return the value; raises what ``make`` raises."""
        version = lake.version()  # first: parts that come after it make another version
        if self._known is None or self._known[0] != version:
            self._known = version, self._make(lake)
        return self._known[1]
