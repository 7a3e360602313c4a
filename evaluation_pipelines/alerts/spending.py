"""What organizations, teams and people spend: an alert when it passes a limit of the settings."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from logging import Logger

import polars as pl

from evaluation_pipelines.alerts.alert_store import AlertStore
from evaluation_pipelines.alerts.domain.messages import SPENDING, spending_alert
from evaluation_pipelines.alerts.send import raise_alert
from evaluation_pipelines.schemas import AGENT_SESSIONS
from evaluation_pipelines.settings.people import PeopleView
from evaluation_pipelines.storage.stores import Stores

MONTH_SHARE = 0.8
"""Share of the limit of a month that raises the alert: something can still be done."""

_COLUMNS = (
    *("session_date", "organization_id", "team", "person_id"),
    *("session_key", "model", "cost_usd"),
)
_SPENDERS = {
    "organization": ["organization_id"],
    "team": ["team", "organization_id"],
    "person": ["person_id"],
}
_SHOWN: dict[PeopleView, tuple[str, ...]] = {
    "off": ("organization",),
    "team": ("organization", "team"),
    "person": ("organization", "team", "person"),
}


def check_spending(stores: Stores, now: datetime, log: Logger) -> int:
    """Raise an alert for each spender of a day or month over its limit; return how many are new.

    Looks at today, yesterday and this month (UTC). An alert ends with its day or month.
    """
    settings, today = stores.settings, now.date()
    limits: dict[str, tuple[float | None, float]] = {
        f"{today}": (settings.alert_cost_per_day_usd, 1.0),
        f"{today - timedelta(days=1)}": (settings.alert_cost_per_day_usd, 1.0),
        f"{today:%Y-%m}": (settings.alert_cost_per_month_usd, MONTH_SHARE),
    }
    store = AlertStore(stores.ledger)
    lasting = [
        each.alert.cause
        for each in store.all()
        if each.alert.kind == SPENDING and each.alert.cause.partition(" ")[0] in limits
    ]
    store.end_except(SPENDING, lasting, now)
    new = 0
    for period, (limit, share) in limits.items():
        if limit is None:
            continue
        sessions = _sessions(stores, period)
        for spender, names, spent in _over(sessions, limit * share, settings.people_view):
            alert = spending_alert(period, spender, names, limit, spent.to_dicts())
            new += raise_alert(stores, alert, now, log)
    return new


def _sessions(stores: Stores, period: str) -> pl.DataFrame:
    """Return the sessions that began in a period with a known cost, the dearest first."""
    days = [day for day in stores.lake.partitions(AGENT_SESSIONS) if f"{day}".startswith(period)]
    sessions = stores.lake.read(AGENT_SESSIONS, days, _COLUMNS)
    return sessions.filter(pl.col("cost_usd").is_finite()).sort(
        ["cost_usd", "session_key"], descending=[True, False]
    )


def _over(
    sessions: pl.DataFrame, limit_usd: float, view: PeopleView
) -> Iterator[tuple[str, list[str], pl.DataFrame]]:
    """Yield kind and names of each spender over a limit, with its sessions."""
    for spender in _SHOWN[view]:
        known = sessions.drop_nulls(_SPENDERS[spender])
        for names, spent in known.group_by(_SPENDERS[spender], maintain_order=True):
            if spent["cost_usd"].sum() > limit_usd:
                yield spender, list(map(str, names)), spent
