"""Tables from judge scores: the daily one, and missing tools of a period."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

import polars as pl

from evaluation_pipelines.judging.domain.badge import (
    every_scoring_has_its_session,
    score_rows,
    totals_are_in_range,
    without_flagged,
)
from evaluation_pipelines.judging.domain.missing_tools import (
    SCORE_COLUMNS,
    MissingToolCounts,
    Period,
    count_missing_tools,
)
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import CurrentRubrics, current_rubrics
from evaluation_pipelines.schemas import (
    AGENT_SESSIONS,
    JUDGE_SCORES,
    MISSING_TOOLS,
    SCORE_FLAGS,
    SESSION_KEY,
)
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.schemas.table import keys_are_unique
from evaluation_pipelines.sessions.domain.session_filter import ALL_SESSIONS, SessionFilter
from evaluation_pipelines.sessions.find import chosen_rows
from evaluation_pipelines.sessions.session_tables import rows_by_date
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.times import USUAL_DAYS

_NEEDED = [*SESSION_KEY, "content_hash", "classification_label"]

CHECKS = (keys_are_unique, totals_are_in_range, every_scoring_has_its_session)


def judge_scores(batch: Batch) -> dict[date, BuiltPartition]:
    """Build the partitions of the batch with the current state of all judgments of each date."""
    stores, days = batch.stores, batch.days
    columns = ["session_date", *_NEEDED]
    sessions = rows_by_date(stores.lake.read(AGENT_SESSIONS, days, columns), days)
    store, rubrics = ScoreStore(stores.ledger), current_rubrics(stores)
    return {day: _built(store.on_date(day), rubrics, sessions[day]) for day in days}


def _built(
    scores: Sequence[Score], rubrics: CurrentRubrics, sessions: pl.DataFrame
) -> BuiltPartition:
    found = sessions.select(_NEEDED).rows()
    contents = {(row[0], row[1]): row[2] for row in found}
    hashes = {(row[0], row[1]): rubrics.prompt_hash(row[3]) for row in found}
    rows = score_rows(scores, hashes, contents)
    return BuiltPartition(
        JUDGE_SCORES,
        rows,
        tuple(check(rows, JUDGE_SCORES) for check in CHECKS),
        {
            "completed": int((rows["status"] == "completed").sum()),
            "failed_scorings": int((rows["status"] == "failed").sum()),
            "open_scorings": int(rows["status"].is_in(["pending", "in_progress"]).sum()),
        },
    )


def counting_scores(
    stores: Stores,
    days: Iterable[date],
    columns: Sequence[str],
    where: pl.Expr | None = None,
) -> pl.DataFrame:
    """Return rows of ``judge_scores`` for whatever counts scores; see ``without_flagged``.

    Every reader of the table that computes something from scores uses this one, so that
    EVAL_JUDGE_EXCLUDE_FLAGGED means the same for all of them.

    Args:
        stores: Lake and settings.
        days: Session dates.
        columns: Columns of the result.
        where: Condition on the rows; ``None`` for all.

    Raises:
        LakeError: A file cannot be read.
    """
    needed = dict.fromkeys((*columns, "status", "total_score", "error_message", *SCORE_FLAGS))
    scores = stores.lake.read(JUDGE_SCORES, list(days), list(needed), where)
    return without_flagged(scores, stores.settings.judge_exclude_flagged).select(columns)


def last_period(now: datetime) -> Period:
    """Return the 28 complete days (UTC) before ``now``."""
    today = now.astimezone(UTC).date()
    return Period(today - timedelta(days=USUAL_DAYS), today)


def missing_tools(
    stores: Stores,
    period: Period,
    organization: str | None = None,
    which: SessionFilter = ALL_SESSIONS,
) -> MissingToolCounts:
    """Return the missing tools of a period.

    Args:
        stores: Lake and ledger.
        period: Session dates.
        organization: The only organization to include; ``None`` for all.
        which: The sessions to include.

    Raises:
        LakeError: A file cannot be read.
    """
    days = _days(period)
    condition = pl.lit(value=True)
    if organization is not None:
        condition = pl.col("organization_id") == organization
    scores = counting_scores(stores, days, SCORE_COLUMNS, condition)
    sessions = stores.lake.read(
        AGENT_SESSIONS, days, ["organization_id", "session_key", "masque"], condition
    )
    chosen = chosen_rows(stores.lake, which, scores)
    return count_missing_tools(chosen, sessions, period)


def write_missing_tools(stores: Stores, period: Period) -> MissingToolCounts:
    """Replace the table ``missing_tools`` with a period and the one of the same length before it.

    Returns:
        The missing tools of ``period``.

    Raises:
        LakeError: A file cannot be read or written.
    """
    before = Period(period.start - (period.end - period.start), period.start)
    present, past = (missing_tools(stores, span) for span in (period, before))
    rows = pl.concat([past.tools, present.tools]).sort(MISSING_TOOLS.order)
    stores.lake.write_whole(rows, MISSING_TOOLS)
    return present


def _days(period: Period) -> list[date]:
    return [period.start + timedelta(days=n) for n in range((period.end - period.start).days)]
