"""Rows of the table ``judge_scores`` and its checks."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from evaluation_pipelines.judging.domain.score import Score, reader_record
from evaluation_pipelines.schemas import JUDGE_SCORES, Table
from evaluation_pipelines.schemas.table import EXAMPLES, CheckResult

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = ("criteria_scores", "sample_totals", "redactions")
_TIMES = ("scored_at", "started_at", "completed_at")


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
    record |= {name: _json(record[name]) for name in _JSON}
    record |= {name: _time(record[f"{name}_us"]) for name in _TIMES}
    record["total_score"] = None if score.total_score is None else float(score.total_score)
    return {name: record[name] for name in JUDGE_SCORES.schema}


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def _time(time_us: int | None) -> datetime | None:
    return None if time_us is None else _EPOCH + timedelta(microseconds=time_us)
