"""Metadata of the judge scores of a date."""

import polars as pl

from evaluation_pipelines.defs.judging import scores_metadata
from evaluation_pipelines.schemas import JUDGE_SCORES


def test_answered_scorings_without_a_cost_are_counted() -> None:
    judge = {"judge_model": "judge-1"}
    rows = [
        {**judge, "status": "completed", "total_score": 64.0},  # in a batch: no latency
        {**judge, "status": "in_progress", "latency_ms": 900.0},
        {**judge, "status": "failed", "failed_reply": "64?"},
        {**judge, "status": "completed", "total_score": 64.0, "judge_cost_usd": 0.1},
        {**judge, "status": "in_progress"},
    ]
    found = scores_metadata(pl.DataFrame(rows, JUDGE_SCORES.schema))
    assert found["scorings_of_unknown_price"].value == 3
    assert found["cost_usd"].value == 0.1
