"""Job that scores one session on demand."""

import dagster as dg

from evaluation_pipelines.defs.check_results import CheckResults
from evaluation_pipelines.defs.judging.assets import publish, report_run
from evaluation_pipelines.defs.judging.config import SessionConfig
from evaluation_pipelines.judging.plans import load_plans
from evaluation_pipelines.judging.run import RunRequest, judge_session, utc_now
from evaluation_pipelines.judging.score_requests import RequestResult
from evaluation_pipelines.scorecards.blind_reviews import note_request
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.stores import Stores


# Not in the pool of the nightly run: a user waits for the answer, and the ledger keeps the session
# from being scored twice.
@dg.op
def score_session(
    context: dg.OpExecutionContext, config: SessionConfig, stores: dg.ResourceParam[Stores]
) -> None:
    """Request the score of a session, and wait for it."""
    settings = stores.settings
    if settings.why_no_judge is not None:
        raise dg.Failure(settings.why_no_judge, allow_retries=False)
    query = SessionName(config.session, config.organization)
    request = RunRequest(config.by or context.run_id)
    requested, report = judge_session(
        stores, load_plans(stores, utc_now()), query, request, force=config.force
    )
    metadata = _metadata(requested)
    score = requested.score
    if requested.answer.http_status == 202 and score is not None:
        key = score.organization_id, score.session_key
        note_request(stores, request.triggered_by, key, utc_now())
    context.add_output_metadata(metadata)
    if report is not None and requested.score is not None:
        report_run(context, report)
        publish(context, stores, [requested.score.session_date], report, CheckResults())
    if requested.answer.http_status >= 400:
        raise dg.Failure(_refusal(requested, config.session), metadata, allow_retries=False)
    if score is not None and score.is_open:
        reason = report.summary() if report is not None else "another process is scoring it"
        raise dg.Failure(f"{score.session_key} is not scored yet: {reason}", allow_retries=False)


@dg.job(description="Scores one session now; its configuration has the session key.")
def judge_session_now() -> None:
    """Answer by the same status table as the terminal program."""
    score_session()


def _refusal(requested: RequestResult, session: str) -> str:
    reasons = {
        "conflict": "it is being scored; wait for the result, or do not force",
        "not_terminal": "it has not ended yet",
        "expired": "its texts have expired; a score that it has stays",
        "unknown": "the lake has no such session",
    }
    answer = requested.answer
    return f"{session}: {reasons[answer.action]} (HTTP {answer.http_status})"


def _metadata(requested: RequestResult) -> dict[str, dg.MetadataValue]:
    """Return what happened; the score itself may be withheld from who reads the run."""
    answer, score = requested.answer, requested.score
    found: dict[str, dg.MetadataValue] = {
        "answer": dg.MetadataValue.text(answer.action),
        "http_status": dg.MetadataValue.int(answer.http_status),
    }
    if score is not None:
        found["score_id"] = dg.MetadataValue.text(str(score.score_id))
        found["status"] = dg.MetadataValue.text(score.status)
    return found
