"""Runs of models as numbers that can be compared: scores, people, task classes, days."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from evaluation_pipelines.comparison.domain.people import UNKNOWN_PERSON, Arm
from evaluation_pipelines.numerics.estimates import Codes

LARGEST_UNKNOWN = 0.2
"""If the persons of more runs of a side are unknown, sessions and days are clusters instead."""

PEOPLE, SESSIONS = "person", "session and day"


@dataclass(frozen=True, slots=True)
class Arms:
    """Runs of some models; ``clustered_by`` says what is taken to vary together."""

    sides: tuple[Arm, ...]
    clustered_by: str


def numbered(runs: pl.DataFrame) -> pl.DataFrame:
    """Return RUNS with numbers of persons, sessions of a day, task classes and days."""
    session = pl.concat_str("organization_id", "session_id", _DAY, separator="\0")
    return runs.with_columns(
        person_number=_number(pl.col("person")),
        session_number=_number(session),
        class_number=_number(pl.col("task_class").fill_null("unknown")),
        day=_DAY,
    )


def arms_of(sides: Sequence[pl.DataFrame]) -> Arms:
    """Return runs of some models for a comparison.

    Args:
        sides: RUNS with a score, ``numbered`` together.
    """
    has_people = all(side["person"].null_count() <= LARGEST_UNKNOWN * side.height for side in sides)
    unit = "person_number" if has_people else "session_number"
    names = ("score", unit, "class_number", "day")
    arms = tuple(Arm(*(side[name].to_numpy() for name in names)) for side in sides)
    return Arms(arms, PEOPLE if has_people else SESSIONS)


_DAY = (
    pl.col("started_at").cast(pl.Datetime("us")) - datetime(1970, 1, 1)  # noqa: DTZ001 - UTC
).dt.total_days()


def _number(text: pl.Expr) -> pl.Expr:
    return text.rank("dense").cast(pl.Int64).fill_null(UNKNOWN_PERSON)


def weeks_of(arm: Arm) -> Codes:
    """Return the week of each run; weeks begin on Monday."""
    # Day 0 is a Thursday.
    weeks: Codes = (arm.days + 3) // 7
    return weeks
