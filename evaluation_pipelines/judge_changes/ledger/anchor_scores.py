"""Scores of anchors by the judges of a change, read from the ledger."""

from dataclasses import astuple

import sqlalchemy as sa

from evaluation_pipelines.judge_changes.domain.judge_change import NOT_SCORED, AnchorScorings
from evaluation_pipelines.judge_changes.domain.judges import JUDGE, Judge
from evaluation_pipelines.storage.ledger.engine import reading
from evaluation_pipelines.storage.ledger.ledger import Ledger
from evaluation_pipelines.storage.ledger.tables.judging import ANCHOR_SCORES

_SCORE = ANCHOR_SCORES.c
_READ = (
    *("organization_id", "session_key", "content_hash", "status", "sample_totals"),
    *("retriable", "error_message", "latency_ms", "judge_cost_usd"),
)

AnchorKey = tuple[str, str, str]
"""(organization_id, session_key, content_hash)"""


def anchor_scorings(ledger: Ledger, judge: Judge) -> dict[AnchorKey, AnchorScorings]:
    """Return what a judge has said of all anchors, of this change or of another one."""
    is_judge = [_SCORE[name] == each for name, each in zip(JUDGE, astuple(judge), strict=True)]
    query = sa.select(*(_SCORE[name] for name in _READ)).where(*is_judge)
    found: dict[AnchorKey, AnchorScorings] = {}
    with reading(ledger.engine) as connection:
        for row in connection.execute(query.order_by(_SCORE.scored_at_us)).mappings():
            key = row["organization_id"], row["session_key"], row["content_hash"]
            found[key] = _with(found.get(key, NOT_SCORED), row)
    return found


def _with(before: AnchorScorings, row: sa.RowMapping) -> AnchorScorings:
    failed = row["status"] == "failed"
    is_unpriced = row["latency_ms"] is not None and row["judge_cost_usd"] is None
    is_known = before.cost_usd is not None and not is_unpriced
    return AnchorScorings(
        row["sample_totals"] or before.totals,
        before.failures + failed,
        before.is_final or (failed and not row["retriable"]),
        row["error_message"] if failed else before.error,
        (before.cost_usd or 0.0) + (row["judge_cost_usd"] or 0.0) if is_known else None,
    )
