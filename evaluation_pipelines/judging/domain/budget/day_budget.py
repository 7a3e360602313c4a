"""Daily budget (UTC), shared by all runs on all machines.

The ledger holds the money that runs have spent and reserved. A reservation is written there in the
same transaction that checks the sum, and such transactions are serialized: the limit holds for any
number of calls that start at the same time. It counts in full until the call is settled: one that
was in flight when its process died may have been charged.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from evaluation_pipelines.judging.domain.budget.money import (
    NANO,
    cost_nano,
    format_nano,
    limit_nano,
)
from evaluation_pipelines.judging.domain.budget.run_budget import Deferred, Limit, over_limit
from evaluation_pipelines.times import to_us


@dataclass(frozen=True, slots=True)
class DayReservation:
    """Money to reserve for a scoring, in US dollars.

    Attributes:
        now_usd: Worst-case cost of the calls made now; they may be charged if the process dies.
        later_usd: Worst-case cost of calls that may never be made: those of a batch not yet sent.
        max_day_usd: Limit on the money that all runs of the day spend and reserve, including this
            reservation; ``None`` is no limit.
    """

    now_usd: float
    later_usd: float = 0.0
    max_day_usd: float | None = None

    @property
    def total_usd(self) -> float:
        """Sum of both amounts."""
        return self.now_usd + self.later_usd

    def refusal(self, others_usd: float) -> Deferred | None:
        """Return why the reservation does not fit; ``None`` if it does.

        Args:
            others_usd: Money spent and reserved today without this reservation. Amounts in the
                ledger are billionths divided by 10**9; the error of their sum is far below one
                billionth.
        """
        if self.max_day_usd is None:
            return None
        more, limit = cost_nano(self.total_usd), limit_nano(self.max_day_usd)
        used = round(others_usd * NANO)
        if more == 0 or used + more <= limit:
            return None
        usage = f"{format_nano(used)} spent or reserved today by all runs together"
        return over_limit(Limit.DAY_COST, more, limit, usage)


def day_begin_us(now: datetime) -> int:
    """Return midnight (UTC) before a time in microseconds since 1970."""
    return to_us(now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
