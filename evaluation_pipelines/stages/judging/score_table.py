"""The daily table of the judge's scores: what the ledger holds of the sessions of a date."""

from datetime import date, datetime

from evaluation_pipelines.domain import quality
from evaluation_pipelines.domain.judging.export import (
    every_scoring_has_its_session,
    score_rows,
    totals_are_in_range,
)
from evaluation_pipelines.domain.schemas import AGENT_SESSIONS, JUDGE_SCORES
from evaluation_pipelines.stages.daily_table import Made
from evaluation_pipelines.stages.judging.plans import prompt_hashes
from evaluation_pipelines.stages.stores import Stores

RULES = (quality.keys_are_unique, totals_are_in_range, every_scoring_has_its_session)


def judge_scores(stores: Stores, day: date, _now: datetime) -> Made:
    """All scorings of the sessions of a date, as they are now."""
    columns = ["organization_id", "session_key", "content_hash"]
    sessions = stores.lake.read(AGENT_SESSIONS, [day], columns)
    contents = {(row[0], row[1]): row[2] for row in sessions.iter_rows()}
    scores = stores.ledger.scores.on_date(day)
    table = JUDGE_SCORES
    rows = score_rows(scores, prompt_hashes(stores.settings), contents)
    return Made(
        table,
        rows,
        (
            quality.keys_are_unique(rows, table),
            totals_are_in_range(rows, table),
            every_scoring_has_its_session(rows, table),
        ),
        {
            "completed": int((rows["status"] == "completed").sum()),
            "failed_scorings": int((rows["status"] == "failed").sum()),
            "open_scorings": int(rows["status"].is_in(["pending", "in_progress"]).sum()),
        },
    )
