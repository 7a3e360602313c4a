"""Scorecards in the form of the gateway: query and override."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl

from evaluation_pipelines.access.domain.keys import Caller
from evaluation_pipelines.schemas import SESSION_KEY, TOOL_REPORTS
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey, withhold
from evaluation_pipelines.scorecards.overrides import HumanVerdict, RecordedOverride, override
from evaluation_pipelines.scorecards.scorecard_queries import CardQuery, query_cards
from evaluation_pipelines.scorecards.session_lookup import find_target
from evaluation_pipelines.service.gateway.requests import OverrideParams, QueryParams
from evaluation_pipelines.service.gateway.tools import tool_intelligence
from evaluation_pipelines.service.rows import camel_row, json_row
from evaluation_pipelines.service.scope import find_window, organization_of, sees_texts
from evaluation_pipelines.sessions.find import SessionName
from evaluation_pipelines.storage.stores import Stores

_SAME = (
    *("agent_id", "overall_score", "confidence", "disqualified", "disqualifier_triggered"),
    *("model", "provider", "classification_label", "cost_usd", "total_tokens", "duration_ms"),
)


def query_scorecards(
    stores: Stores, caller: Caller, waiting: frozenset[SessionKey], params: QueryParams
) -> dict[str, Any]:
    """Return the current cards of the sessions' best matches, the oldest session first.

    Scores of the sessions ``waiting`` are withheld.

    Raises:
        QueryTooWideError: The query names neither a session nor an agent nor a time range.
        SessionNotFoundError: The caller sees no such session.
    """
    session, organization, days = params.run_id, organization_of(caller), None
    if session is not None:
        window = find_window(stores, caller, session)
        session, organization = window["session_key"], window["organization_id"]
        days = [window["session_date"]]
    query = CardQuery(
        session=session,
        organization=organization,
        agent=params.agent_id,
        since=params.since,
        until=params.until,
        label=params.classification_label,
        model=params.model,
        profile="best",
        limit=params.limit,
        days=days,
    )
    cards = withhold(query_cards(stores, query), waiting)
    reports = _reports(stores, cards, waiting)
    texts = sees_texts(caller)
    return {
        "scorecards": [
            _card(row, reports.get((row["organization_id"], row["session_key"])), texts=texts)
            for row in cards.iter_rows(named=True)
        ]
    }


def override_scorecard(
    stores: Stores,
    caller: Caller,
    waiting: frozenset[SessionKey],
    params: OverrideParams,
    now: datetime,
) -> dict[str, Any]:
    """Record a score by a person for the score that counts.

    The answer withholds the automatic score of the sessions ``waiting``.

    Raises:
        SessionNotFoundError: The caller sees no such session.
        ProfileError: No profile matches the session.
        OverrideError: The score is not on the scale, or a text is empty.
    """
    verdict = HumanVerdict(
        params.override_score, params.annotator, params.reason, recorded_by=caller.name
    )
    recorded = record_override(stores, caller, SessionName(params.run_id), verdict, now)
    new = recorded.new
    is_hidden = (new.organization_id, new.session_key) in waiting
    return {
        "runId": new.session_key,
        "overrideId": recorded.override_id,
        "judgeProfileId": new.profile_id,
        "judgeProfileVersion": new.profile_version,
        "overallScore": None if is_hidden else new.automatic_score,
        "humanOverride": {
            "overrideScore": params.override_score if is_hidden else new.override_score,
            "annotator": new.annotator,
            "reason": new.reason,
        },
    }


def record_override(
    stores: Stores, caller: Caller, name: SessionName, verdict: HumanVerdict, now: datetime
) -> RecordedOverride:
    """Record a score by a person, of a session that the caller sees; raises as above."""
    organization = organization_of(caller, name.organization)
    target = find_target(stores, replace(name, organization=organization))
    return override(stores, target, verdict, "person", now)


def _reports(
    stores: Stores, cards: pl.DataFrame, waiting: frozenset[SessionKey]
) -> dict[SessionKey, Mapping[str, Any]]:
    days = cards["session_date"].unique().to_list()
    reports = withhold(stores.lake.read(TOOL_REPORTS, days), waiting)
    wanted = reports.join(cards, on=SESSION_KEY, how="semi")
    return {(row["organization_id"], row["session_key"]): row for row in wanted.to_dicts()}


def _card(
    row: Mapping[str, Any], report: Mapping[str, Any] | None, *, texts: bool
) -> dict[str, Any]:
    reasoning = row["reasoning"] if texts else None
    is_computed = row["method"] == "heuristic"
    return {
        "runId": row["session_key"],
        **camel_row({name: row[name] for name in _SAME}),
        "criteriaScores": json_row({"scores": row["criteria_scores"]})["scores"] or {},
        "reasoning": None if is_computed else reasoning,
        "explanation": reasoning,
        "humanOverride": _override(row["human_override"], texts=texts),
        "judgeProfileId": row["profile_id"],
        "judgeProfileVersion": row["profile_version"],
        "toolIntelligence": None if report is None else tool_intelligence(report, texts=texts),
        "awaitsReview": row[WAITS],
    }


def _override(human: Mapping[str, Any] | None, *, texts: bool) -> dict[str, Any] | None:
    if human is None:
        return None
    shown = camel_row(human)
    return shown if texts else {**shown, "reason": None}
