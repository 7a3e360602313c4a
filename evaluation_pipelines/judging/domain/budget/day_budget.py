"""The budget of a day (UTC), which all runs share, whoever started them and wherever they are.

What runs have spent and set aside is in the ledger. Who sets something aside writes it there and
looks at the sum in the same transaction, one at a time: so the limit holds however many runs begin
at the same moment. What a process had set aside and not asked for is free again when its lease
runs out; a call that it was waiting for may have been charged, and stays booked.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from evaluation_pipelines.judging.domain.budget.money import NANO, dollars, nano_down, nano_up
from evaluation_pipelines.judging.domain.budget.run_budget import Deferred, Limit, too_dear
from evaluation_pipelines.times import to_us


@dataclass(frozen=True, slots=True)
class DayReservation:
    """Money that is to be set aside for a scoring, in US dollars.

    Attributes:
        asked_usd: The most of calls that are made now: they may be charged whatever becomes of us.
        later_usd: The most of those that follow: set aside as long as the lease holds.
        most_of_day_usd: What all runs of the day may have spent and set aside, this included; None
            is no limit.
    """

    asked_usd: float
    later_usd: float = 0.0
    most_of_day_usd: float | None = None

    @property
    def all_usd(self) -> float:
        """Both together."""
        return self.asked_usd + self.later_usd

    def refusal(self, others_usd: float) -> Deferred | None:
        """Why it does not fit; None if it does.

        Args:
            others_usd: What is spent and set aside today without it. Dollars of the ledger are
                billionths that were divided, and their sum drifts by far less than one.
        """
        if self.most_of_day_usd is None:
            return None
        more, cap = nano_up(self.all_usd), nano_down(self.most_of_day_usd)
        used = round(others_usd * NANO)
        if more == 0 or used + more <= cap:
            return None
        what = f"{dollars(used)} spent or set aside today by all runs together"
        return too_dear(Limit.DAY_COST, more, cap, what)


def day_begin_us(now: datetime) -> int:
    """Midnight before a time, in UTC, as microseconds since 1970."""
    return to_us(now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
