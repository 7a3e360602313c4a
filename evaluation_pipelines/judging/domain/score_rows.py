"""Scores of the judge as rows of ``judge_scores`` with their checks, and as numbers of a day."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from evaluation_pipelines.schemas import JUDGE_SCORES, Table
from evaluation_pipelines.schemas.judge_score import Score, reader_record
from evaluation_pipelines.schemas.table import EXAMPLES, UTC_TIME, CheckResult
from evaluation_pipelines.times import from_us


def score_rows(
    scores: Iterable[Score], prompt_hashes: Mapping[Any, str | None], contents: Mapping[Any, str]
) -> pl.DataFrame:
    """Return the scorings of a session date as rows of ``judge_scores``.

    Args:
        scores: All scorings of the date.
        prompt_hashes: Hash of the rubric that would judge each window now.
        contents: Content hash of each window of the date by (organization_id, session_key).
    """
    rows = [_row(each, prompt_hashes, contents) for each in scores]
    frame = pl.DataFrame(rows, schema=JUDGE_SCORES.schema, orient="row")
    return frame.sort(JUDGE_SCORES.order)


def totals_are_in_range(scores: pl.DataFrame, table: Table) -> CheckResult:
    """Check that completed scorings have a total from 0 to 100, and others have none."""
    total, done = pl.col("total_score"), pl.col("status") == "completed"
    fits = pl.when(done).then(total.is_between(0, 100)).otherwise(total.is_null())
    broken = scores.filter(~fits.fill_null(value=False))
    return CheckResult(
        table.name,
        "totals_are_in_range",
        broken.is_empty(),
        "a total from 0 to 100 for completed scorings, and none for others",
        f"{broken.height} scorings with another total",
        tuple(broken["score_id"].head(EXAMPLES)),
    )


def every_scoring_has_its_session(scores: pl.DataFrame, table: Table) -> CheckResult:
    """Check that every scoring has a session window.

    A failure is a warning, because late attribution may change the windows.
    """
    orphans = scores.filter(pl.col("is_current").is_null())
    return CheckResult(
        table.name,
        "every_scoring_has_its_session",
        orphans.is_empty(),
        f"a session window for each of {scores.height} scorings",
        f"{orphans.height} scorings without a session window",
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
