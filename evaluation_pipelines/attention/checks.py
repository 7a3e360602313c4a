"""Alerts about what needs attention and about spending."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import islice
from logging import Logger

import polars as pl

from evaluation_pipelines.attention.alert_store import RISK_DAYS, AlertStore
from evaluation_pipelines.attention.current_risks import current_risks, waiting_sessions
from evaluation_pipelines.attention.domain.items import SENT, alert_of, sent
from evaluation_pipelines.attention.domain.messages import (
    NOT_CURRENT,
    QUALITY_RISKS,
    SPENDING,
    days_of,
    quality_risk_alert,
    spending_alert,
)
from evaluation_pipelines.attention.gather import gather_sent
from evaluation_pipelines.attention.send import raise_alert, send_pending
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS
from evaluation_pipelines.scorecards.domain.evaluation import QUALITY_RISK
from evaluation_pipelines.scorecards.domain.withheld import SessionKey
from evaluation_pipelines.scorecards.store import EvaluationEvent, EventStore
from evaluation_pipelines.sessions.session_queries import WINDOW_COLUMNS, window_events
from evaluation_pipelines.settings.data import PeopleView
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.stored_faults import find_damage
from evaluation_pipelines.storage.stores import Stores

MONTH_SHARE = 0.8
"""Share of the monthly limit that raises the alert, early enough to act."""

_LONGEST_SESSION = timedelta(days=31)
"""Sessions that began more than this before a period are not searched."""

_WINDOW = ("session_date", "organization_id", "session_key")
_COLUMNS = (
    *(*_WINDOW, "session_id", "team", "person_id", "model"),
    *("started_at", "ended_at", "cost_usd", "api_requests"),
)
_SPENDERS = {
    "organization": ["organization_id"],
    "team": ["team", "organization_id"],
    "person": ["person_id"],
}
_VIEWS: Sequence[PeopleView] = ("off", "team", "person")
"""Views of people in order; each shows one more kind of spender."""


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
        row.alert.cause
        for row in store.all()
        if row.alert.kind == SPENDING and row.alert.cause.partition(" ")[0] in limits
    ]
    store.end_except(SPENDING, lasting, now)
    new = 0
    for period, (limit, share) in limits.items():
        if limit is None:
            continue
        sessions = _spent(stores, *days_of(period))
        for spender, names, spent in _over(sessions, limit * share, settings.people_view):
            alert = spending_alert(period, spender, names, limit, spent.to_dicts())
            new += raise_alert(stores, alert, now, log)
    return new


def _spent(stores: Stores, first: date, last: date) -> pl.DataFrame:
    """Return what sessions spent in a period, highest first.

    ``cost_usd`` is that of their requests in the period with a known cost, ``unknown`` the number
    of the others. Events are read only of sessions that reach beyond the period or do not know all
    their costs.
    """
    dates = stores.lake.partitions(AGENT_SESSIONS)
    sessions = stores.lake.read(
        AGENT_SESSIONS,
        [day for day in dates if first - _LONGEST_SESSION <= day <= last],
        _COLUMNS,
        (pl.col("ended_at").dt.date() >= first) & (pl.col("started_at").dt.date() <= last),
    )
    is_within = pl.col("started_at").dt.date() >= first
    is_known = is_within & (pl.col("ended_at").dt.date() <= last) & pl.col("cost_usd").is_finite()
    known = sessions.filter(is_known).with_columns(unknown=pl.lit(0, pl.Int64))
    others = sessions.filter((pl.col("api_requests") > 0) & ~is_known.fill_null(value=False))
    requests = others.drop("cost_usd").join(
        _requests(stores, others, first, last), on=_WINDOW, how="inner"
    )
    return pl.concat([known, requests.select(known.columns)]).sort(
        ["cost_usd", "session_key"], descending=[True, False]
    )


def _requests(stores: Stores, sessions: pl.DataFrame, first: date, last: date) -> pl.DataFrame:
    """Return per window the requests' cost in a period and how many have no known cost."""
    events = stores.lake.read(
        AGENT_EVENTS,
        sessions["session_date"].unique().sort(),
        [*WINDOW_COLUMNS, "cost_usd"],
        pl.col("session_id").is_in(sessions["session_id"].unique().to_list()),
    )
    requests = events.filter(
        pl.col("event_name") == "api_request",
        pl.col("event_time").dt.date().is_between(first, last),
    ).select("event_id", "cost_usd")
    cost = pl.col("cost_usd").filter(pl.col("cost_usd").is_finite())
    return (
        window_events(events)
        .join(requests, on="event_id")
        .group_by(_WINDOW)
        .agg(cost_usd=cost.sum(), unknown=(pl.len() - cost.count()).cast(pl.Int64))
    )


def _over(
    sessions: pl.DataFrame, limit_usd: float, view: PeopleView
) -> Iterator[tuple[str, list[str], pl.DataFrame]]:
    """Yield kind and names of each spender over a limit, with its sessions."""
    for spender, columns in islice(_SPENDERS.items(), _VIEWS.index(view) + 1):
        known = sessions.drop_nulls(columns)
        for names, spent in known.group_by(columns, maintain_order=True):
            if spent["cost_usd"].sum() > limit_usd:
                yield spender, list(map(str, names)), spent


def check_alerts(stores: Stores, now: datetime, log: Logger) -> dict[str, int]:
    """Run all checks once, raise new alerts, and end those whose cause is gone.

    A cause that returns raises a new alert.

    Returns:
        The number of new alerts of each kind and of undelivered alerts; zeros are left out.

    Raises:
        LakeError: A table cannot be read.
        LedgerError: The ledger cannot be used.
    """
    checks: dict[str, Callable[[Stores, datetime, Logger], int]] = {
        "quality risks": check_quality_risks,
        "spending": check_spending,
    }
    found = dict[str, int]()
    for name, check in checks.items():
        try:
            found[name] = check(stores, now, log)
        except LakeError as error:
            log.warning("%s could not be checked: %s", name, error)
    found |= check_items(stores, now, log)  # at the end: the others may meet a damaged file
    unsent = send_pending(stores, now, log)
    return {name: number for name, number in {**found, "undelivered": unsent}.items() if number}


def check_items(stores: Stores, now: datetime, log: Logger) -> dict[str, int]:
    """Raise an alert for each item that is sent; return the number of new ones by kind.

    Raises:
        LakeError: A file cannot be read.
        LedgerError: The ledger cannot be used.
    """
    try:
        find_damage(stores)  # notes it in the queue
    except LakeError as error:
        log.warning("not all files could be verified: %s", error)
    found = dict[str, int]()
    facts = gather_sent(stores, now)
    if facts.silent is not None:  # all telemetry is read and built, by another process
        AlertStore(stores.ledger).end_except(NOT_CURRENT, (), now)
    for kind, items in sent(facts).items():
        if items is None:  # it is not known what has ended
            continue
        AlertStore(stores.ledger).end_except(kind, items, now)
        alerts = [alert_of(cause, item) for cause, item in items.items()]
        found[SENT[kind]] = sum(raise_alert(stores, alert, now, log) for alert in alerts)
    return found


def check_quality_risks(stores: Stores, now: datetime, log: Logger) -> int:
    """Raise one alert for all risks since the last such alert; return the number of new alerts.

    The cause of the alert is the position of its newest risk in the list of events. It is not
    raised before one of the risks may be sent.
    """
    last = AlertStore(stores.ledger).newest(QUALITY_RISKS)
    position = int(last.alert.cause) if last else 0
    first_day = now.date() - timedelta(days=RISK_DAYS)
    risks = EventStore(stores.ledger).of_kind(QUALITY_RISK, position, first_day)
    # A session that was scored again since has several events: its newest counts.
    newest = {(risk.organization_id, risk.session_key): risk for risk in risks}
    if not newest or not _is_shown(stores, newest):
        return 0
    payloads = [json.loads(risk.payload) for risk in newest.values()]
    alert = quality_risk_alert(str(risks[-1].position), payloads)
    return int(raise_alert(stores, alert, now, log))


def _is_shown(stores: Stores, events: Mapping[SessionKey, EvaluationEvent]) -> bool:
    """Return whether a session may be shown, also if its file cannot be read."""
    try:
        return bool(current_risks(stores, events, waiting_sessions(stores)))
    except LakeError:
        return True
