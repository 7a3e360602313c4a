"""The open alerts as they are now, each with what helps."""

from collections.abc import Iterator
from datetime import timedelta

import polars as pl

from evaluation_pipelines.alerts.alert_store import AlertStore, RaisedAlert
from evaluation_pipelines.alerts.domain.helping_pages import helping_page
from evaluation_pipelines.alerts.domain.messages import QUALITY_RISKS
from evaluation_pipelines.alerts.domain.risks import Risks, risks_of
from evaluation_pipelines.alerts.risky_sessions import RISK_DAYS, risky_sessions
from evaluation_pipelines.doctor.domain.diagnosis import OpenAlert
from evaluation_pipelines.profiles.profile_store import ProfileStore
from evaluation_pipelines.reporting.session_list import sessions_of_dates
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.scorecards.blind_reviews import BlindReviews
from evaluation_pipelines.scorecards.domain.evaluation import is_risk
from evaluation_pipelines.scorecards.domain.withheld import withhold
from evaluation_pipelines.storage.stores import Stores


def open_alerts(stores: Stores) -> Iterator[OpenAlert]:
    """Yield the alerts of which something is left to do; raises LakeError and LedgerError."""
    for each in AlertStore(stores.ledger).all():
        if each.ended_at is not None:
            continue
        seen = each.alert.title
        if each.alert.kind == QUALITY_RISKS:
            found = _risks(stores, each)
            if found.rows.is_empty():
                continue
            fewer = found.why_fewer()
            seen = found.title() if fewer is None else f"{found.title()} ({fewer.lower()})"
        helps = _what_helps(each, stores.settings.dagster_url)
        yield OpenAlert(f"alert of {each.raised_at:%Y-%m-%d}: {seen}", *helps)


def _risks(stores: Stores, raised: RaisedAlert) -> Risks:
    sessions = risky_sessions(stores.ledger, raised.alert_id) or frozenset()
    first = raised.raised_at.date() - timedelta(days=RISK_DAYS)
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if day >= first]
    keys = sorted({key for _, key in sessions})
    rows = sessions_of_dates(stores, days, pl.col("session_key").is_in(keys))
    rows = withhold(rows, BlindReviews(stores).waiting())
    return risks_of(rows, sessions, is_risk(ProfileStore(stores.ledger).registry()))


def _what_helps(raised: RaisedAlert, dagster_url: str | None) -> tuple[str, str | None]:
    """Return what helps, and the path of the page that has it: or else what the alert says."""
    alert = raised.alert
    _, *said = alert.text.splitlines()
    page = helping_page(raised.alert_id, alert, dagster_url)
    return " ".join(said) if page is None else f"the page {page} has what helps", page
