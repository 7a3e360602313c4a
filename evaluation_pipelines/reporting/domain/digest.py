"""A week in short: what got better and worse, verdicts, cost, losses, and what was left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import polars as pl

from evaluation_pipelines.formatting import interval, number, points, signed, usd, whole
from evaluation_pipelines.numerics.estimates import mean

MIN_PEOPLE = 3
"""People with scored sessions in both weeks, below which a change is not measured."""

BY = {"model": "model", "label": "classification_label", "agent": "agent_id"}
"""What is compared with the week before -> its column."""

_MOST = 5
_DECIDED = {"a_better": "model_a", "b_better": "model_b"}


@dataclass(frozen=True, slots=True)
class Shift:
    """Change of the mean score of the same people from the week before.

    Attributes:
        by: A name in BY.
        name: The model, label or agent.
        people: People with scored sessions in both weeks; each counts once.
        before: Mean of their mean scores in the week before, 0-100.
        after: The same of this week.
        low: Lower end of the 95 % interval of the difference.
        high: Its upper end.
    """

    by: str
    name: str
    people: int
    before: float
    after: float
    low: float
    high: float

    @property
    def is_beyond_chance(self) -> bool:
        """True if the interval leaves out no change."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        """Return a sentence."""
        ends = interval(signed(self.low), signed(self.high))
        change = f"{signed(self.after - self.before)} points ({ends})"
        return f"{self.by} {self.name}: {change}, now {points(self.after)}; {self.people} people"


@dataclass(frozen=True, slots=True)
class Digest:
    """A week in short; sentences are plain text and hold names from telemetry.

    Attributes:
        first: First day.
        last: Last day.
        summary: Sessions, mean score and cost, next to those of the week before.
        better: Changes for the better beyond chance, the largest first.
        worse: Changes for the worse beyond chance, the largest first.
        verdicts: Verdicts of the comparison that changed.
        losses: Tools whose calls were lost most.
        left_out: What the figures do not count.
        shifts: All changes that could be measured.
    """

    first: date
    last: date
    summary: Sequence[str]
    better: Sequence[str]
    worse: Sequence[str]
    verdicts: Sequence[str]
    losses: Sequence[str]
    left_out: Sequence[str]
    shifts: Sequence[Shift]

    @property
    def title(self) -> str:
        """What it is of."""
        return f"Agent sessions from {self.first} to {self.last}"

    @property
    def sections(self) -> dict[str, Sequence[str]]:
        """Heading -> its sentences; of an empty section, that there is nothing."""
        none = ("Nothing beyond chance.",)
        return {
            "In short": self.summary,
            "Better": self.better or none,
            "Worse": self.worse or none,
            "Verdicts that changed": self.verdicts or ("None.",),
            "Most calls lost": self.losses or ("None.",),
            "Left out": self.left_out,
        }

    def text(self) -> str:
        """Return it as plain text."""
        parts = [self.title]
        for heading, lines in self.sections.items():
            parts += ["", heading, *(f"- {line}" for line in lines)]
        return "\n".join(parts) + "\n"


def shifts(now: pl.DataFrame, before: pl.DataFrame) -> list[Shift]:
    """Return the changes of scores from one week to the next, the largest first.

    The same people are compared: of each person with scored sessions in both weeks, the
    difference of the means; their mean has Student's interval.

    Args:
        now: Sessions with ``effective_100``, ``person_id`` and the columns of BY.
        before: The same of the week before.
    """
    found = []
    for by, column in BY.items():
        both = _means(now, column).join(_means(before, column), on=[column, "person_id"])
        for (name,), people in both.partition_by(column, as_dict=True).items():
            if people.height < MIN_PEOPLE:
                continue
            after, earlier = people["score"].to_numpy(), people["score_right"].to_numpy()
            change = mean(np.asarray(after - earlier, dtype=np.float64))
            low, high = change.low, change.high
            if low is not None and high is not None:
                means = float(earlier.mean()), float(after.mean())
                found.append(Shift(by, f"{name}", people.height, *means, low, high))
    return sorted(found, key=lambda each: -abs(each.after - each.before))


def beyond_chance(found: Iterable[Shift]) -> tuple[list[str], list[str]]:
    """Return sentences of what got better and what got worse, the largest changes first."""
    certain = [each for each in found if each.is_beyond_chance]
    better = [f"{each}" for each in certain if each.low > 0][:_MOST]
    return better, [f"{each}" for each in certain if each.high < 0][:_MOST]


def changed_verdicts(
    now: Iterable[Mapping[str, Any]], before: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the pairs of models whose verdict is another one than a week before.

    Args:
        now: Pairs of ``verdict_list``.
        before: Those of a week before.
    """
    earlier = dict(map(_verdict, before))
    changed = []
    for key, winner in map(_verdict, now):
        former = earlier.get(key)
        if key in earlier and winner != former:
            label, one, other = key
            said = "not decided any more" if winner is None else f"{winner} is better now"
            was = "" if former is None else f" (before: {former})"
            changed.append(f"{label}: {one} and {other}: {said}{was}")
    return changed


def summary(now: pl.DataFrame, before: pl.DataFrame) -> list[str]:
    """Return sessions, mean score and cost of two weeks with the columns of :func:`shifts`."""
    scored = whole(now["effective_100"].count())
    return [
        f"{whole(now.height)} sessions (the week before {whole(before.height)})",
        f"mean score {_score(now)} of 100 (before {_score(before)}), of {scored} scored sessions",
        f"cost {_cost(now)} (before {_cost(before)})",
    ]


def most_lost(tools: pl.DataFrame) -> list[str]:
    """Return the tools whose calls were lost most; rows of ``lost_by``."""
    lost = tools.filter(pl.col("lost_calls") > 0).head(_MOST)
    return [
        f"{row['tool']}: {row['lost_calls']:g} of {row['calls']} calls "
        f"({number(row['lost_pct'], 0)} %), tokens for {usd(row['lost_usd'])}"
        for row in lost.iter_rows(named=True)
    ]


def _means(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    known = rows.drop_nulls(["effective_100", "person_id", column])
    return known.group_by(column, "person_id").agg(score=pl.col("effective_100").mean())


def _verdict(pair: Mapping[str, Any]) -> tuple[tuple[str, str, str], str | None]:
    """Return label and both models, in the order of their names, and the better one."""
    one, other = sorted((pair["model_a"], pair["model_b"]))
    winner = _DECIDED.get(pair["verdict"])
    return (pair["label"], one, other), None if winner is None else pair[winner]


def _score(rows: pl.DataFrame) -> str:
    found = rows["effective_100"].mean()
    return points(found if isinstance(found, float) else None)


def _cost(rows: pl.DataFrame) -> str:
    unknown = rows["cost_usd"].null_count()
    said = usd(float(rows["cost_usd"].sum()) if unknown < rows.height else None)
    return f"{said}, unknown for {whole(unknown)}" if unknown else said
