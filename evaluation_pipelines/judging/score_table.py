"""The daily table of judge scores."""

from collections.abc import Iterable, Sequence
from datetime import date

import polars as pl

from evaluation_pipelines.judging.domain.badge import without_flagged
from evaluation_pipelines.judging.domain.score_rows import (
    every_scoring_has_its_session,
    score_rows,
    totals_are_in_range,
)
from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import CurrentRubrics, current_rubrics
from evaluation_pipelines.schemas import AGENT_SESSIONS, JUDGE_SCORES, SCORE_FLAGS, SESSION_KEY
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.schemas.table import keys_are_unique
from evaluation_pipelines.sessions.session_tables import rows_by_date
from evaluation_pipelines.storage.daily_table import Batch, BuiltPartition
from evaluation_pipelines.storage.stores import Stores

_NEEDED = [*SESSION_KEY, "content_hash", "classification_label"]

CHECKS = (keys_are_unique, totals_are_in_range, every_scoring_has_its_session)


def judge_scores(batch: Batch) -> dict[date, BuiltPartition]:
    """Build the partitions of the batch with the current state of all scorings of each date."""
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
