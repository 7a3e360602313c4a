"""How far a change must go before it counts, however often one looks.

The boundary is closed-end (Chu, Stinchcombe and White, "Monitoring structural change", 1996): the
chance to cross it on any night of a quarter is bounded. Their limit theory is for one start and one
baseline; here both move with the night, so the chance is simulated and a curve put through it.
The share of a window is in proportion to its length: a short one is for large drops, which it finds
as well beyond a boundary that is a little farther away.
"""

import math

QUARTER = 90
"""Nights for which the chance of a crossing holds."""

ALONE = 2
"""Models as which a single one counts: an interval has two ends, and that of an alert must not
contain 0."""

_RATE = 90.0
"""With 90 days before each window, 74 fits 480,000 simulated quarters of runs that are all alike:
4.5, 0.98 and 0.10% of them cross the boundaries for 5, 1 and 0.1%. Where people come and go,
neighboring windows have less in common, and more nights are a chance of their own: 5.7 and 1.2% of
4,000 such quarters cross them, with variances that are known."""


def chance_in_quarter(deviates: float, weeks: int, models: int = 1) -> float:
    """Return the chance that some model goes as far, in one direction, in a quarter of no change.

    Args:
        deviates: Standard errors from no change, of a normal distribution; the sign is ignored.
        weeks: Length of the window.
        models: How many are watched.
    """
    density = math.exp(-(deviates**2) / 2) / math.sqrt(2 * math.pi)
    return -math.expm1(-models * _RATE * weeks**-1.5 * density)


def boundary(chance: float, weeks: int, models: int = 1) -> float:
    """Return the deviates that are reached in a quarter with some chance."""
    density = -math.log1p(-chance) * weeks**1.5 / (models * _RATE)
    return math.sqrt(-2 * math.log(density * math.sqrt(2 * math.pi)))
