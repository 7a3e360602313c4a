"""Money in whole billionths of a US dollar, so that sums are exact."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

NANO = 1_000_000_000


def cost_nano(usd: float) -> int:
    """Return a cost in billionths, rounded up.

    Raises:
        ValueError: ``usd`` is negative or not finite.
    """
    if not (math.isfinite(usd) and usd >= 0):
        raise ValueError(f"a cost must be 0 or more, not {usd}")
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_CEILING))


def limit_nano(usd: float) -> int:
    """Return a limit in billionths, rounded down."""
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_FLOOR))


def format_nano(nano: int) -> str:
    """Format billionths of a dollar as ``$0.1234``."""
    return f"${nano / NANO:.4f}"
