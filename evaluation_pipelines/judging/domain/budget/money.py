"""Money in whole billionths of a US dollar, so that no sum drifts."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

NANO = 1_000_000_000


def nano_up(usd: float) -> int:
    """A cost, rounded up.

    Raises:
        ValueError: it is negative, or no number.
    """
    if not (math.isfinite(usd) and usd >= 0):
        raise ValueError(f"money is 0 or more, not {usd}")
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_CEILING))


def nano_down(usd: float) -> int:
    """A limit, rounded down."""
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_FLOOR))


def dollars(nano: int) -> str:
    """The amount for people: ``$0.1234``."""
    return f"${nano / NANO:.4f}"
