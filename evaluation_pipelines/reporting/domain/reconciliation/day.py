"""The books of one day: sessions by state, equations, and records that no session has."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import polars as pl

from evaluation_pipelines.reporting.domain.reconciliation.equations import Equation
from evaluation_pipelines.reporting.domain.reconciliation.states import STATES

_EQUATION = {
    "equation": pl.String,
    "whole": pl.String,
    "number": pl.Int64,
    "parts": pl.String,
    "difference": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class Unattributed:
    """Records that belong to no session of the day, with a note that says why they are listed."""

    number: int
    what: str
    note: str


@dataclass(frozen=True, slots=True)
class DayBooks:
    """State of every session of a day, as of a time.

    Attributes:
        session_date: The day.
        as_of: When the books were made.
        sessions: EVALUATION_BOOKS of the day.
        equations: Equations that must balance.
        unattributed: Records that belong to no session of the day.
        judge_cost_usd: Cost of the day's scorings by the judge; None when a price is unknown.
        waits: Why the day waits to be built; None when it is built.
    """

    session_date: date
    as_of: datetime
    sessions: pl.DataFrame
    equations: tuple[Equation, ...]
    unattributed: tuple[Unattributed, ...]
    judge_cost_usd: float | None
    waits: str | None = None

    @property
    def is_balanced(self) -> bool:
        """True if every equation balances."""
        return all(each.is_balanced for each in self.equations)

    @property
    def states(self) -> dict[str, int]:
        """Number of sessions in each state, in the order of the states."""
        return count_states(self.sessions)

    def shown(self) -> Mapping[str, pl.DataFrame]:
        """Return the books as small tables: states, equations, and unattributed records."""
        states = [
            (state, number, STATES[state].meaning, STATES[state].what_next)
            for state, number in zip(STATES, self.states.values(), strict=True)
        ]
        rows = [
            (
                each.name,
                each.whole.what,
                each.whole.number,
                " + ".join(map(str, each.parts)) or "0",
                each.difference,
            )
            for each in self.equations
        ]
        unattributed = [(each.number, each.what, each.note) for each in self.unattributed]
        return {
            "states": _frame(states, "state", "sessions", "meaning", "what would change it"),
            "equations": pl.DataFrame(rows, schema=_EQUATION, orient="row"),
            "not part of a session": _frame(unattributed, "number", "what", "note"),
        }

    def reasons(self, state: str) -> list[tuple[str, int]]:
        """Return the reasons of the sessions in a state with their counts, most frequent first.

        Where a reason is withheld, it is null and not counted.
        """
        reasons = self.sessions.filter(pl.col("state") == state)["reason"]
        counted = Counter(reasons.drop_nulls())
        return sorted(counted.items(), key=lambda each: (-each[1], each[0]))


def count_states(sessions: pl.DataFrame) -> dict[str, int]:
    """Count rows of EVALUATION_BOOKS by state, in the order of the states; all states."""
    counted = Counter(sessions["state"])
    return {state: counted[state] for state in STATES}


def _frame(rows: Sequence[tuple[object, ...]], *names: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=list(names), orient="row")
