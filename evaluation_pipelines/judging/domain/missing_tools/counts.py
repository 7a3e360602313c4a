"""The tools that judges say were missing, counted over the sessions of a period."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.missing_tools.answers import (
    Kind,
    Reading,
    read_missing_tools,
)
from evaluation_pipelines.judging.domain.prompt.sanitize import plain_line
from evaluation_pipelines.schemas import MISSING_TOOLS

EXAMPLES = 3
LONGEST_RATIONALE = 240
BASELINE = "baseline"

_SESSION = ["organization_id", "session_key"]
_ANSWER = [*_SESSION, "judge_profile_id"]

SCORE_COLUMNS = (
    *_ANSWER,
    "session_date",
    "score_id",
    "agent_model",
    "status",
    "completed_at",
    "missing_tools_analysis",
    "missing_tools_error",
)
"""What is needed of ``judge_scores``."""

_NAMED = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "session_date": pl.Date(),
        "agent_model": pl.String(),
        "masque": pl.String(),
        "tool": pl.String(),
        "rationale": pl.String(),
    }
)


@dataclass(frozen=True, slots=True)
class Period:
    """UTC days of session dates, from ``start`` until the day before ``end``."""

    start: date
    end: date

    def __str__(self) -> str:
        return f"{self.start} until {self.end}"


@dataclass(frozen=True, slots=True)
class Counted:
    """MISSING_TOOLS of a period without priorities, and where each answer of the period went.

    Attributes:
        period: The days.
        tools: The rows.
        answers: What happened to an answer -> how many; they add up to the completed scorings.
        unparsed: Why an answer could not be read -> how many.
        nameless_items: Items of lists that name no tool.
    """

    period: Period
    tools: pl.DataFrame
    answers: Mapping[str, int]
    unparsed: Mapping[str, int]
    nameless_items: int

    def lines(self) -> list[str]:
        """What was counted and what was not, one line each."""
        found = [f"{number} {what}" for what, number in self.answers.items() if number]
        found += [f"{number} unparsed: {why}" for why, number in sorted(self.unparsed.items())]
        if self.nameless_items:
            found.append(f"{self.nameless_items} items of lists name no tool and are not counted")
        return found


def count_missing_tools(scores: pl.DataFrame, sessions: pl.DataFrame, period: Period) -> Counted:
    """Count each tool once a session, by the newest answer of each judge profile.

    Args:
        scores: SCORE_COLUMNS of ``judge_scores``.
        sessions: ``organization_id, session_key, masque`` of their windows; where one is not there
            any more its masque is unknown and stays out of ``masques``.
        period: Only scorings of sessions that began in it.
    """
    done = scores.filter(
        pl.col("session_date").is_between(period.start, period.end, closed="left"),
        pl.col("status") == "completed",
    )
    worn = sessions.select(*_SESSION, pl.col("masque").fill_null(BASELINE))
    newest = (
        done.sort("completed_at", "score_id")
        .unique(_ANSWER, keep="last")
        .sort(_ANSWER)
        .join(worn, on=_SESSION, how="left", maintain_order="left")
    )
    answered = newest.filter(pl.col("missing_tools_analysis").is_not_null())
    readings = [read_missing_tools(text) for text in answered["missing_tools_analysis"]]
    kinds = Counter(each.kind for each in readings)
    unparsed = Counter(each.reason for each in readings if each.reason is not None)
    return Counted(
        period,
        _counted(answered, readings, period),
        {
            "lists of missing tools": kinds[Kind.LIST],
            "answers that none is missing": kinds[Kind.NONE_MISSING],
            "answers that are no list, not counted": kinds[Kind.UNPARSED],
            "scorings without an answer about tools": newest.height - answered.height,
            "older scorings of the same session and profile, not counted": (
                done.height - newest.height
            ),
        },
        unparsed,
        sum(each.nameless_items for each in readings),
    )


def _counted(answered: pl.DataFrame, readings: list[Reading], period: Period) -> pl.DataFrame:
    read = pl.Series([each.kind is not Kind.UNPARSED for each in readings], dtype=pl.Boolean)
    asked = answered.filter(read).group_by("organization_id").agg(asked_sessions=_windows())
    rows = list(_named(answered, readings))
    named = pl.DataFrame(rows, schema=_NAMED, orient="row")
    # The newest session first, and the first of several rationales of a session.
    newest_first = named.sort("session_date", "session_key", descending=[True, False])
    table = MISSING_TOOLS
    return (
        newest_first.group_by("organization_id", "tool", maintain_order=True)
        .agg(
            sessions=_windows(),
            mentions=pl.len(),
            agent_models=pl.col("agent_model").drop_nulls().unique().sort(),
            masques=pl.col("masque").drop_nulls().unique().sort(),
            examples=pl.struct("session_key", "rationale")
            .filter(pl.col("session_key").is_first_distinct())
            .head(EXAMPLES),
            first_date=pl.col("session_date").min(),
            last_date=pl.col("session_date").max(),
        )
        .join(asked, on="organization_id", how="left")
        .with_columns(
            period_start=pl.lit(period.start),
            period_end=pl.lit(period.end),
            priority=pl.lit(None, pl.Int64),
            priority_reason=pl.lit(None, pl.String),
        )
        .select(table.schema.names())
        .cast(table.schema)
        .sort(table.order)
    )


def _named(answered: pl.DataFrame, readings: list[Reading]) -> Iterator[tuple[Any, ...]]:
    columns = ("organization_id", "session_key", "session_date", "agent_model", "masque")
    for row, reading in zip(answered.select(columns).iter_rows(), readings, strict=True):
        for each in reading.tools:
            yield (*row, each.tool, plain_line(each.rationale, LONGEST_RATIONALE))


def _windows() -> pl.Expr:
    return pl.col("session_key").n_unique()
