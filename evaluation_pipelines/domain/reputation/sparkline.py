"""A row of scores as a row of letters."""

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], low: float, high: float) -> str:
    """One bar per value between ``low`` and ``high``; a dot where nothing is known."""
    return "".join("·" if value is None else _bar(value, low, high) for value in values)


def _bar(value: float, low: float, high: float) -> str:
    place = (min(max(value, low), high) - low) / (high - low) * (len(_BARS) - 1)
    return _BARS[round(place)]
