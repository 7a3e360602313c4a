"""The books of one day: its sessions by state, its equations, and what stands beside them."""

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
    """What belongs to no session of the day, and why it is told all the same."""

    number: int
    what: str
    note: str


@dataclass(frozen=True, slots=True)
class DayBooks:
    """What became of a day, as of a time.

    Attributes:
        session_date: The day.
        as_of: When the books were made.
        sessions: EVALUATION_BOOKS of the day.
        equations: What must add up.
        beside: What stands beside the sessions.
        judge_cost_usd: What the judge's scorings of the day cost; None when a price is unknown.
        waits: Why the day waits to be built; None when it is built.
    """

    session_date: date
    as_of: datetime
    sessions: pl.DataFrame
    equations: tuple[Equation, ...]
    beside: tuple[Unattributed, ...]
    judge_cost_usd: float | None
    waits: str | None = None

    @property
    def is_balanced(self) -> bool:
        """Whether every equation adds up."""
        return all(each.is_balanced for each in self.equations)

    @property
    def states(self) -> dict[str, int]:
        """State -> sessions, in the order of the states; all of them."""
        return count_states(self.sessions)

    def shown(self) -> Mapping[str, pl.DataFrame]:
        """The books as small tables: states with their meaning, equations, and the rest."""
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
        beside = [(each.number, each.what, each.note) for each in self.beside]
        return {
            "states": _frame(states, "state", "sessions", "meaning", "what would change it"),
            "equations": pl.DataFrame(rows, schema=_EQUATION, orient="row"),
            "beside the sessions": _frame(beside, "number", "what", "note"),
        }

    def reasons(self, state: str) -> list[tuple[str, int]]:
        """Reasons of the sessions in a state with how many have them, the most frequent first."""
        counted = Counter(self.sessions.filter(pl.col("state") == state)["reason"])
        return sorted(counted.items(), key=lambda each: (-each[1], each[0]))


def count_states(sessions: pl.DataFrame) -> dict[str, int]:
    """State -> rows of EVALUATION_BOOKS, in the order of the states; all of them."""
    counted = Counter(sessions["state"])
    return {state: counted[state] for state in STATES}


def _frame(rows: Sequence[tuple[object, ...]], *names: str) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=list(names), orient="row")
