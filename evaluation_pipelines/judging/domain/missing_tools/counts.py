"""Missing tools named by judges, counted over the sessions of a period."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.missing_tools.answers import (
    AnswerKind,
    ParsedAnswer,
    parse_missing_tools,
)
from evaluation_pipelines.judging.domain.prompt.sanitize import plain_line
from evaluation_pipelines.schemas import MISSING_TOOLS

MAX_EXAMPLES = 3
MAX_RATIONALE_LENGTH = 240
BASELINE = "baseline"
"""Masque of sessions without one."""

_SESSION = ["organization_id", "session_key"]
_ANSWER = [*_SESSION, "judge_profile_id"]

SCORE_COLUMNS = (
    *_ANSWER,
    "session_date",
    "score_id",
    "agent_model",
    "judge_model",
    "status",
    "completed_at",
    "missing_tools_analysis",
    "missing_tools_error",
)
"""Required columns of ``judge_scores``."""

_MENTIONS = pl.Schema(
    {
        "organization_id": pl.String(),
        "session_key": pl.String(),
        "session_date": pl.Date(),
        "agent_model": pl.String(),
        "judge_model": pl.String(),
        "masque": pl.String(),
        "tool": pl.String(),
        "rationale": pl.String(),
    }
)


@dataclass(frozen=True, slots=True)
class Period:
    """Session dates (UTC) from ``start`` to the day before ``end``."""

    start: date
    end: date

    def __str__(self) -> str:
        return f"{self.start} until {self.end}"


@dataclass(frozen=True, slots=True)
class MissingToolCounts:
    """Missing tools of a period, and the number of answers by outcome.

    Attributes:
        period: Session dates.
        tools: MISSING_TOOLS without priorities.
        answers: Number of completed scorings by outcome; the values add up to all of them.
        unparsed: Number of unparsed answers by reason.
        nameless_items: Number of list items that name no tool.
    """

    period: Period
    tools: pl.DataFrame
    answers: Mapping[str, int]
    unparsed: Mapping[str, int]
    nameless_items: int

    def lines(self) -> list[str]:
        """Return the models that named tools, and the counts that are not 0, one line each."""
        judges = self.tools["judge_models"].explode(empty_as_null=True).drop_nulls().unique().sort()
        lines = [] if judges.is_empty() else [f"named by {', '.join(judges)}"]
        lines += [f"{number} {outcome}" for outcome, number in self.answers.items() if number]
        lines += [f"{number} unparsed: {why}" for why, number in sorted(self.unparsed.items())]
        if self.nameless_items:
            lines.append(f"{self.nameless_items} items of lists name no tool and are not counted")
        return lines


def count_missing_tools(
    scores: pl.DataFrame, sessions: pl.DataFrame, period: Period
) -> MissingToolCounts:
    """Count each tool once per session, by the newest answer of each judge profile.

    Args:
        scores: SCORE_COLUMNS of ``judge_scores``.
        sessions: ``organization_id, session_key, masque`` of their windows. Sessions that no longer
            have a window have no masque in ``masques``.
        period: Session dates to count.
    """
    completed = scores.filter(
        pl.col("session_date").is_between(period.start, period.end, closed="left"),
        pl.col("status") == "completed",
    )
    masques = sessions.select(*_SESSION, pl.col("masque").fill_null(BASELINE))
    newest = (
        completed.sort("completed_at", "score_id")
        .unique(_ANSWER, keep="last")
        .sort(_ANSWER)
        .join(masques, on=_SESSION, how="left", maintain_order="left")
    )
    answered = newest.filter(pl.col("missing_tools_analysis").is_not_null())
    parsed = [parse_missing_tools(text) for text in answered["missing_tools_analysis"]]
    kinds = Counter(each.kind for each in parsed)
    return MissingToolCounts(
        period,
        _counted(answered, parsed, period),
        {
            "lists of missing tools": kinds[AnswerKind.LIST],
            "answers that none is missing": kinds[AnswerKind.NONE_MISSING],
            "answers that are no list, not counted": kinds[AnswerKind.UNPARSED],
            "scorings without an answer about tools": newest.height - answered.height,
            "older scorings of the same session and profile, not counted": (
                completed.height - newest.height
            ),
        },
        Counter(each.reason for each in parsed if each.reason is not None),
        sum(each.nameless_items for each in parsed),
    )


def _counted(answered: pl.DataFrame, parsed: list[ParsedAnswer], period: Period) -> pl.DataFrame:
    is_parsed = pl.Series(
        [each.kind is not AnswerKind.UNPARSED for each in parsed], dtype=pl.Boolean
    )
    asked = answered.filter(is_parsed).group_by("organization_id").agg(asked_sessions=_windows())
    mentions = pl.DataFrame(list(_mentions(answered, parsed)), schema=_MENTIONS, orient="row")
    # Examples come from the newest sessions; the first rationale of a session counts.
    newest_first = mentions.sort("session_date", "session_key", descending=[True, False])
    table = MISSING_TOOLS
    return (
        newest_first.group_by("organization_id", "tool")
        .agg(
            sessions=_windows(),
            mentions=pl.len(),
            agent_models=pl.col("agent_model").drop_nulls().unique().sort(),
            judge_models=pl.col("judge_model").drop_nulls().unique().sort(),
            masques=pl.col("masque").drop_nulls().unique().sort(),
            examples=pl.struct("session_key", "rationale")
            .filter(pl.col("session_key").is_first_distinct())
            .head(MAX_EXAMPLES),
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


def _mentions(answered: pl.DataFrame, parsed: list[ParsedAnswer]) -> Iterator[tuple[Any, ...]]:
    columns = [each for each in _MENTIONS if each not in {"tool", "rationale"}]
    for row, answer in zip(answered.select(columns).iter_rows(), parsed, strict=True):
        for each in answer.tools:
            yield (*row, each.tool, plain_line(each.rationale, MAX_RATIONALE_LENGTH))


def _windows() -> pl.Expr:
    return pl.col("session_key").n_unique()
