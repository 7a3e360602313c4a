"""What the judge has done on a day (UTC), in numbers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScoringsOfDay:
    """Scorings of sessions.

    Attributes:
        completed: Scorings that began on the day and are completed.
        failed: Those that failed.
        open: Scorings of any day that are requested or in progress.
        cost_usd: Known cost of the completed and the failed ones.
        without_cost: How many of these have no known cost.
        models: Models of the completed ones, in order of name.
    """

    completed: int
    failed: int
    open: int
    cost_usd: float
    without_cost: int
    models: tuple[str, ...] = ()
