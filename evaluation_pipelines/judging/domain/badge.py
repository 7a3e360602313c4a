"""Judge scores as lists show them, as rows with checks, and as totals of a day."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import polars as pl

from evaluation_pipelines.schemas import JUDGE_SCORES, SCORE_FLAGS, Table
from evaluation_pipelines.schemas.judge_score import (
    NOT_SCORED,
    SCORING,
    Score,
    ScoreStatus,
    reader_record,
)
from evaluation_pipelines.schemas.table import EXAMPLES, UTC_TIME, CheckResult
from evaluation_pipelines.times import from_us

YELLOW_FROM, GREEN_FROM = 50, 75
"""Lowest scores (0 to 100) of the bands above red."""

Band: TypeAlias = Literal["red", "yellow", "green"]

AWAITS_JUDGE = "Waits for the judge"
"""State of a judgment that a person asked for and no judge works on yet."""

LEFT_OUT = "its judge score is left out by EVAL_JUDGE_EXCLUDE_FLAGGED"
"""Why a completed score does not count; its flags follow."""

_STATES: dict[ScoreStatus, str] = {
    "pending": AWAITS_JUDGE,
    "in_progress": SCORING,
    "failed": "Failed",
}


@dataclass(frozen=True, slots=True)
class Badge:
    """Judge score of a session window in short.

    Attributes:
        text: ``62 yellow``, ``Not scored``, ``Waits for the judge``, ``Scoring`` or ``Failed``.
        total: Total from 0 to 100; ``None`` unless the judgment is completed.
        model: The model that judges; ``None`` if the session was never sent to a judge.
        flags: Names in SCORE_FLAGS that apply.
        reason: Why the judgment failed; ``None`` if it did not, or if texts were not read.
    """

    text: str = NOT_SCORED
    total: int | None = None
    model: str | None = None
    flags: tuple[str, ...] = ()
    reason: str | None = None


def band(score: float) -> Band:
    """Return the band of a score from 0 to 100."""
    if score >= GREEN_FROM:
        return "green"
    return "yellow" if score >= YELLOW_FROM else "red"


def is_in_band(column: str, band: str) -> pl.Expr:
    """Return whether a score from 0 to 100 is in a band: green, yellow, red or unscored."""
    score = pl.col(column)
    match band:
        case "green":
            return score >= GREEN_FROM
        case "yellow":
            return (score >= YELLOW_FROM) & (score < GREEN_FROM)
        case "red":
            return score < YELLOW_FROM
    return score.is_null()


def with_band(column: str) -> pl.Expr:
    """Return the text of a badge by the total in a column; ``Not scored`` if that is null."""
    total = pl.col(column)
    name = (
        pl.when(total >= GREEN_FROM)
        .then(pl.lit("green"))
        .when(total >= YELLOW_FROM)
        .then(pl.lit("yellow"))
        .otherwise(pl.lit("red"))
    )
    return pl.format("{} {}", total.cast(pl.Int64), name).fill_null(NOT_SCORED)


def badge(score: Score) -> Badge:
    """Return the badge of a scoring."""
    total = score.total_score
    state = NOT_SCORED if score.is_left else _STATES.get(score.status, "")
    text = state if total is None else f"{total} {band(total)}"
    return Badge(text, total, score.judge_model, flags_of(score), score.error_message)


def badges_of(
    scorings: Iterable[Score], contents: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], Badge]:
    """Return the badges of session windows by (organization_id, session_key).

    Args:
        scorings: Their scorings, oldest first; those of other windows are ignored.
        contents: ``content_hash`` of each window.
    """
    scores_by_window: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for scoring in scorings:
        scores_by_window[scoring.organization_id, scoring.session_key].append(scoring)
    shown = {
        key: shown_scoring(scores_by_window[key], content) for key, content in contents.items()
    }
    return {key: Badge() if found is None else badge(found) for key, found in shown.items()}


def shown_scoring(scorings: Sequence[Score], content_hash: str) -> Score | None:
    """Return the scoring to show for a session: one in progress, else the newest that counts.

    Args:
        scorings: All scorings of its window, oldest first.
        content_hash: Its content; scores of earlier contents do not count.
    """
    under_way = [scoring for scoring in scorings if scoring.is_open and not scoring.is_left]
    current = [scoring for scoring in scorings if scoring.content_hash == content_hash]
    completed = [score for score in current if score.total_score is not None]
    found = under_way or completed or current
    return found[-1] if found else None


def flags_of(score: object) -> tuple[str, ...]:
    """Return the names of the flags that a scoring has."""
    return tuple(name for name in SCORE_FLAGS if getattr(score, name))


def flag_names() -> pl.Expr:
    """Return the flags of a row of ``judge_scores`` with commas, as ``judge_flags``; else null."""
    found = _flags_among(SCORE_FLAGS, ", ")
    return pl.when(found != "").then(found).alias("judge_flags")


def without_flagged(scores: pl.DataFrame, left_out: Collection[str]) -> pl.DataFrame:
    """Return rows of ``judge_scores`` in which flagged scores do not count.

    A completed score with one of the flags ``left_out`` gets the status ``flagged``, no total, and
    the flags in ``error_message``.

    Args:
        scores: Rows with ``status``, ``total_score``, ``error_message`` and the columns of
            SCORE_FLAGS.
        left_out: Names in SCORE_FLAGS.
    """
    if not left_out:
        return scores
    found = _flags_among(left_out, " and ")
    is_flagged = (pl.col("status") == "completed") & (found != "")
    why = pl.format(f"{LEFT_OUT}: {{}}", found)
    return scores.with_columns(
        status=pl.when(is_flagged).then(pl.lit("flagged")).otherwise("status"),
        total_score=pl.when(~is_flagged).then("total_score"),
        error_message=pl.when(is_flagged).then(why).otherwise("error_message"),
    )


def _flags_among(names: Collection[str], separator: str) -> pl.Expr:
    """Return those of some flags that a row has; empty for none."""
    found = [pl.when(pl.col(name)).then(pl.lit(name)) for name in SCORE_FLAGS if name in names]
    return pl.concat_str(found, separator=separator, ignore_nulls=True)


def score_rows(
    scores: Iterable[Score], prompt_hashes: Mapping[Any, str | None], contents: Mapping[Any, str]
) -> pl.DataFrame:
    """Return the scorings of a session date as rows of ``judge_scores``.

    Args:
        scores: All scorings of the date.
        prompt_hashes: Hash of the rubric that would judge each window now.
        contents: Content hash of each window of the date by (organization_id, session_key).
    """
    rows = [_row(score, prompt_hashes, contents) for score in scores]
    frame = pl.DataFrame(rows, schema=JUDGE_SCORES.schema, orient="row")
    return frame.sort(JUDGE_SCORES.order)


def totals_are_in_range(scores: pl.DataFrame, table: Table) -> CheckResult:
    """Check that completed judgments have a total from 0 to 100, and others have none."""
    total, done = pl.col("total_score"), pl.col("status") == "completed"
    fits = pl.when(done).then(total.is_between(0, 100)).otherwise(total.is_null())
    broken = scores.filter(~fits.fill_null(value=False))
    return CheckResult(
        table.name,
        "totals_are_in_range",
        broken.is_empty(),
        "a total from 0 to 100 for completed judgments, and none for others",
        f"{broken.height} judgments with another total",
        tuple(broken["score_id"].head(EXAMPLES)),
    )


def every_scoring_has_its_session(scores: pl.DataFrame, table: Table) -> CheckResult:
    """Check that every judgment has a session window.

    A failure is a warning, because late attribution may change the windows.
    """
    orphans = scores.filter(pl.col("is_current").is_null())
    return CheckResult(
        table.name,
        "every_scoring_has_its_session",
        orphans.is_empty(),
        f"a session window for each of {scores.height} judgments",
        f"{orphans.height} judgments without a session window",
        tuple(orphans["session_key"].head(EXAMPLES)),
        "warning",
    )


def _row(
    score: Score, prompt_hashes: Mapping[Any, str | None], contents: Mapping[Any, str]
) -> dict[str, Any]:
    key = (score.organization_id, score.session_key)
    record, content = reader_record(score, prompt_hashes.get(key)), contents.get(key)
    record["is_current"] = None if content is None else content == score.content_hash
    return {name: _value(record, name, type_) for name, type_ in JUDGE_SCORES.schema.items()}


def _value(record: Mapping[str, Any], name: str, type_: pl.DataType) -> Any:
    """Return a field as its column of the lake has it: JSON, a time, or as it is."""
    value = record[f"{name}_us" if type_ == UTC_TIME else name]
    if value is None:
        return None
    if type_ == UTC_TIME:
        return from_us(value)
    is_json = type_ == pl.String and not isinstance(value, str)
    return json.dumps(value) if is_json else value


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
