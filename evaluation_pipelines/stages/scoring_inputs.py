"""What scorecards take from other steps: scores of judges and tool reports of a date."""

from datetime import date

import polars as pl

from evaluation_pipelines.domain.schemas import JUDGE_SCORES, TOOL_REPORTS
from evaluation_pipelines.domain.scorecards.judged import JUDGE_RESULTS
from evaluation_pipelines.stages.stores import Stores


def judge_results(stores: Stores, day: date) -> pl.DataFrame:
    """JUDGE_RESULTS of a date: what ``judge_scores`` has of them."""
    return stores.lake.read(JUDGE_SCORES, [day], JUDGE_RESULTS.names()).cast(JUDGE_RESULTS)


def tool_effectiveness(stores: Stores, day: date) -> pl.DataFrame:
    """``organization_id, session_key, effectiveness_score`` of the tool reports of a date."""
    columns = ["organization_id", "session_key", "effectiveness_score"]
    return stores.lake.read(TOOL_REPORTS, [day], columns)
