"""Runs that judge, requests for them, and their scores."""

from dataclasses import replace
from datetime import UTC, datetime

import dagster as dg

from evaluation_pipelines.judging.ledger.score_store import ScoreStore
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.score_requests import request_score
from evaluation_pipelines.schemas.judge_score import Score
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.settings import load_settings
from evaluation_pipelines_tests.defs.code_location import (
    CodeLocation,
    day,
    range_tags,
    repository,
)

FRESH = "fresh_sessions_sensor"


def judge_range(
    location: CodeLocation, first: int, last: int, **config: object
) -> dg.ExecuteInProcessResult:
    return (
        repository()
        .get_job("judge_due")
        .execute_in_process(
            instance=location.instance,
            tags=range_tags(day(first), day(last)),
            run_config={"ops": {"judge_scores": {"config": config}}},
            raise_on_error=False,
        )
    )


def scores(location: CodeLocation) -> list[Score]:
    found = ScoreStore(location.workplace.ledger)
    return [score for date in found.dates() for score in found.on_date(date)]


def execute_request(location: CodeLocation, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    return (
        repository()
        .get_job("judge_due")
        .execute_in_process(
            instance=location.instance,
            tags=request.tags,
            run_config=request.run_config,
            raise_on_error=False,
        )
    )


def ask_and_leave(location: CodeLocation, session: str) -> None:
    """Request the score of a session without waiting for it."""
    stores = replace(location.workplace.stores, settings=load_settings())
    now = datetime.now(UTC)
    plans = load_plans(stores, now)
    request_score(stores, plans, SessionName(session), "reviewer", now, force=False)
