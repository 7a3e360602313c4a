"""What needs attention, and what is fine: one list for terminal, pages, digest and alerts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from shlex import quote
from typing import Any

import polars as pl

from evaluation_pipelines.attention.domain.arrivals import DAYS, Arrival, CostCheck, Gap
from evaluation_pipelines.attention.domain.item import (
    BEFORE_DAYS,
    BUILD,
    DOCTOR,
    FAILED_CALLS,
    JUDGE,
    RECENT_DAYS,
    Item,
    Page,
    Part,
    State,
    books_page,
    page_of,
)
from evaluation_pipelines.attention.domain.messages import (
    DAMAGED,
    FAILED_RUN,
    JUDGE_DOWN,
    LONGEST_LINE,
    OPEN_BOOKS,
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    RISE,
    SPENDING,
    STALE,
    UNJUDGED,
    Alert,
    RaisedAlert,
    advice_of,
    below_threshold,
    days_of,
    regression_cause,
    run_of,
    sanitize,
)
from evaluation_pipelines.attention.domain.session_facts import Risks
from evaluation_pipelines.formatting import age, listed, percent, pluralize, points, size, usd
from evaluation_pipelines.scorecards.domain.withheld import WAITS

SENT = {
    REGRESSION: "regressions",
    RISE: "rises",
    STALE: "silent sources",
    PARKED: "parked dates",
    DAMAGED: "damaged files",
}
"""Kinds of items that are sent as alerts: the features themselves raise the other alerts."""

_READ_WITHIN = timedelta(minutes=1)
"""Time within which a running service reads new telemetry."""

_CLOCK_TOLERANCE = timedelta(minutes=2)
_MOST_SESSIONS = 5
_LONGEST_TITLE = 300
_INGEST = (
    "Keep make serve or make dev running.",
    "Or run: evaluation-pipelines ingest, then evaluation-pipelines build",
)
_PROGRAM = ": evaluation-pipelines "
_SHOW = "To see one: evaluation-pipelines show SESSION"
_AREAS = (
    *("telemetry", "running", "tables", "models", "agents", "alerts", "reviews", "judge"),
    *("budget", "disk", "permissions", "versions", "clock"),
)


@dataclass(frozen=True, slots=True)
class Examined:
    """What takes a while to find out.

    Attributes:
        arrivals: Telemetry of the last days, by program.
        is_unseen: Whether files of these days are damaged, so that some may be missing.
        costs: Reported costs of the last days next to list prices, by program.
        damage: Path in the lake of each damaged or missing file -> the sentence, with what to do.
        unread: Errors of files that could not be read.
        answers: Whether what should answer does.
        late_rows: Rows of ClickHouse by day that arrived too late to be read.
    """

    arrivals: Sequence[Arrival] = ()
    is_unseen: bool = False
    costs: Mapping[str, CostCheck] = field(default_factory=dict)
    damage: Mapping[str, str] = field(default_factory=dict)
    unread: Sequence[str] = ()
    answers: Sequence[Item] = ()
    late_rows: Mapping[date, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found.

    Attributes:
        now: The time of this machine.
        examined: What takes a while to find out; ``None`` if it is not known yet.
        is_telemetry_ever: Whether any was ever read.
        unread_bytes: Bytes in the landing folder that are not read.
        oldest_unread: Since when the oldest of these bytes wait.
        why_not_listed: Why the landing files cannot be listed; ``None`` if they can.
        silent: Agent programs that sent nothing for ``stale_hours``, each with its newest event;
            ``None`` while telemetry waits to be read or built, or sessions cannot be read.
        stale_hours: Hours after which a program counts as silent.
        damage: Files of the lake that are damaged or missing, as far as readers met them.
        due: Dates to build.
        parked: Dates that are not retried, each with its attempts and the last error.
        alerts: Open alerts, the oldest first.
        risks: Remaining risks of each alert of quality risks.
        regressions: Rows of ``model_regressions`` in state "alert"; ``None`` if they cannot be
            read.
        rises: Agents whose failed calls or costs rose; ``None`` if sessions cannot be read.
        sessions: Rows of the sessions that regressions name, as ``withhold`` returns them.
        dagster_url: Address of Dagster's interface.
        serves_at: Address of the service that asks; ``None`` in a terminal.
        others: Items that follow from one fact alone.
    """

    now: datetime
    examined: Examined | None = None
    is_telemetry_ever: bool = False
    unread_bytes: int = 0
    oldest_unread: datetime | None = None
    why_not_listed: str | None = None
    silent: Sequence[tuple[str, datetime]] | None = ()
    stale_hours: float = 24.0
    damage: Sequence[str] = ()
    due: int = 0
    parked: Sequence[tuple[date, int, str]] = ()
    alerts: Sequence[RaisedAlert] = ()
    risks: Mapping[int, Risks] = field(default_factory=dict)
    regressions: Sequence[Mapping[str, Any]] | None = ()
    rises: Sequence[Mapping[str, Any]] | None = ()
    sessions: pl.DataFrame | None = None
    dagster_url: str | None = None
    serves_at: str | None = None
    others: Sequence[Item] = ()


def attention(facts: Facts) -> list[Item]:
    """Return all items: failed ones first, then warnings, tasks, and what is fine."""
    examined = facts.examined or Examined()
    found = [
        _unread(facts),
        *([] if facts.examined is None else _arrivals(facts, examined)),
        *([_silent(facts, facts.silent)] if facts.silent else []),
        *([_parked(facts.parked)] if facts.parked else []),
        *map(_damaged, _damaged_files(facts)),
        *(_regression(facts, row) for row in facts.regressions or ()),
        *map(rise, facts.rises or ()),
        *_alerts(facts),
        *facts.others,
        *examined.answers,
        _clock(facts.now, examined.arrivals),
    ]
    order = list(State)
    return sorted(found, key=lambda item: (order.index(item.state), _AREAS.index(item.area)))


def needing(items: Sequence[Item]) -> list[Item]:
    """Return the items that need attention."""
    return [item for item in items if item.state is not State.OK]


def worst(items: Sequence[Item]) -> State:
    """Return the worst state of some items; a task is not a fault."""
    states = {item.state for item in items}
    return next((state for state in (State.FAILED, State.WARNING) if state in states), State.OK)


def sent(facts: Facts) -> dict[str, dict[str, Item] | None]:
    """Return the items sent as alerts: kind -> cause -> item; ``None`` for an unknown kind.

    The other alerts are raised by the runs that they are about.
    """
    silent, damage = facts.silent, _damaged_files(facts)
    return {
        STALE: None
        if silent is None
        else {holder[0]: _silent(facts, [holder]) for holder in silent},
        PARKED: {f"{line[0]}": _parked([line]) for line in facts.parked},
        DAMAGED: {path: _damaged(path) for path in damage},
        REGRESSION: None
        if facts.regressions is None
        else {
            regression_cause(regression): _regression(facts, regression)
            for regression in facts.regressions
        },
        RISE: None
        if facts.rises is None
        else {rise_cause(risen): rise(risen) for risen in facts.rises},
    }


def alert_of(cause: str, item: Item) -> Alert:
    """Return an item as an alert: the same words, as plain text for a chat program."""
    text = "\n".join(sanitize(line, LONGEST_LINE) for line in item.lines)
    return Alert(item.kind, cause, sanitize(item.seen, _LONGEST_TITLE), text)


def _unread(facts: Facts) -> Item:
    if facts.why_not_listed is not None:
        advice = "Check EVAL_LANDING_DIR and the access keys in the environment."
        return Item("unlisted", "telemetry", State.FAILED, facts.why_not_listed, advice)
    if not facts.unread_bytes:
        return Item("unread", "telemetry", State.OK, "All telemetry is read")
    seen = f"{size(facts.unread_bytes)} of telemetry not read yet"
    waits = facts.oldest_unread is not None and facts.now - facts.oldest_unread > _READ_WITHIN
    if facts.is_telemetry_ever and not waits:
        return Item("unread", "telemetry", State.OK, seen)
    since = facts.oldest_unread
    return Item("unread", "telemetry", State.FAILED, seen, *_INGEST, since=since)


def _arrivals(facts: Facts, examined: Examined) -> Iterator[Item]:
    if not examined.arrivals and facts.due:
        seen = "Telemetry is read but not built yet"
        yield Item("unbuilt", "telemetry", State.WARNING, seen, *BUILD)
    elif not examined.arrivals and not facts.unread_bytes and not examined.is_unseen:
        days = f"No telemetry in the last {DAYS} days"
        seen = days if facts.is_telemetry_ever else "No telemetry yet"
        endpoint = "" if facts.serves_at is None else f" --endpoint {facts.serves_at}"
        remedy = "Let an agent send telemetry here."
        command = (
            f"evaluation-pipelines agent-config codex{endpoint} prints the settings for Codex. "
            "Other agents: docs/service.md"
        )
        yield Item("nothing", "telemetry", State.FAILED, seen, remedy, command)
    silent = {name for name, _ in facts.silent or ()}
    for arrival in examined.arrivals:
        if arrival.program not in silent:
            seen = f"{arrival.program}: {arrival.events_per_day:,.0f} events a day, last event "
            seen += age(arrival.last_event, facts.now) or "now"
            seen += _off_list_price(examined.costs.get(arrival.program, CostCheck()))
            yield Item("arriving", "telemetry", State.OK, seen)
    if lacking := [arrival for arrival in examined.arrivals if arrival.gaps]:
        parts = [Part(arrival.program, _lacks(arrival.gaps)) for arrival in lacking]
        programs = listed([arrival.program for arrival in lacking])
        seen = f"Telemetry from {programs} lacks data that scores use"
        remedy = "Provide what is listed for each agent."
        yield Item("gaps", "telemetry", State.WARNING, seen, remedy, parts=(*parts,))
    for day, rows in examined.late_rows.items():
        late = pluralize(rows, "row")
        seen = f"{late} of {day} in ClickHouse arrived later than the overlap: not read"
        minutes = (facts.now.date() - day).days * 1440 + 1440
        advice = (
            f"Ingest once with EVAL_OTEL_LOGS_OVERLAP_MINUTES={minutes} (rows read before count "
            "once), then set an overlap that suffices."
        )
        yield Item("late", "telemetry", State.WARNING, seen, advice)


def _lacks(gaps: Sequence[Gap]) -> str:
    """Return gaps in words, and once for all that a setting fills, the setting."""
    switches: dict[str, list[str]] = {}
    for gap in gaps:
        switches.setdefault(gap.switch, []).append(f"{gap}")
    return ". ".join(f"{', '.join(of)}. Needed: {switch}" for switch, of in switches.items())


def _off_list_price(costs: CostCheck) -> str:
    if not costs.off:
        return ""
    of_all = f"{costs.off:,} of {costs.sessions:,} sessions"
    return f", the reported cost of {of_all} is over 10% off the list price"


def _silent(facts: Facts, programs: Sequence[tuple[str, datetime]]) -> Item:
    names = [name for name, _ in programs]
    who = names[0] if len(names) == 1 else f"{len(names)} agent programs"
    parts = [
        Part(name, f"last event {newest:%Y-%m-%d %H:%M}", page_of("sessions", program=name))
        for name, newest in programs
    ]
    remedy = "Check that the collector is running and writing to the landing folder."
    seen = f"No telemetry from {who} for over {facts.stale_hours:g} hours"
    return Item(STALE, "telemetry", State.WARNING, seen, remedy, parts=(*parts,))


def _parked(dates: Sequence[tuple[date, int, str]]) -> Item:
    (first, attempts, _), *others = dates
    seen = f"Build of {first} failed {attempts} times and stopped retrying"
    if others:
        seen = f"Builds of {len(dates)} dates failed and stopped retrying"
    parts = tuple(Part(f"{day}", error, books_page(day)) for day, _, error in dates)
    remedy = "Fix the cause, then build again."
    command = f"Run: evaluation-pipelines build --date {first}"
    page = DOCTOR if others else books_page(first)
    return Item(PARKED, "running", State.FAILED, seen, remedy, command, page, parts=parts)


def _damaged_files(facts: Facts) -> list[str]:
    """Return each damaged file once."""
    examined = facts.examined or Examined()
    return list(dict.fromkeys([*facts.damage, *examined.unread, *examined.damage.values()]))


def _damaged(damage: str) -> Item:
    what, _, advice = damage.partition(". ")
    remedy, is_command, command = advice.partition(_PROGRAM)
    if not is_command:
        return Item(DAMAGED, "tables", State.FAILED, what, remedy)
    run = f"Run{is_command}{command}"
    return Item(DAMAGED, "tables", State.FAILED, what, f"{remedy}.", run)


def rise(row: Mapping[str, Any]) -> Item:
    """Return an agent whose failed calls or costs rose: a row of ``rises``."""
    is_share, agent = row["measure"] == FAILED_CALLS, row["agent_id"]
    before, rate, low, high = (row[name] for name in ("rate_before", "rate", "low", "high"))
    shown = percent if is_share else usd
    ends = f"{usd(low)} to {usd(high)}"
    if is_share:
        ends = f"{points(100 * low)} to {points(100 * high)} percentage points"
    told = f"Last {RECENT_DAYS} days: {ends} more than in the {BEFORE_DAYS} days before"
    return Item(
        *(RISE, "agents", State.WARNING),
        f"{agent}: {row['measure']} up from {shown(before)} to {shown(rate)}",
        "Compare its recent sessions with earlier ones.",
        f"To list them: evaluation-pipelines sessions --agent {quote(agent)}",
        page_of("agents", agent, organization=row["organization_id"]),
        row["since"],
        (Part("", told),),
        is_for_all=True,
    )


def rise_cause(row: Mapping[str, Any]) -> str:
    """Return the cause shared by all rows of ``rises`` about the same rise."""
    return f"{row['measure']} / {row['organization_id']} / {row['agent_id']}"


def _regression(facts: Facts, row: Mapping[str, Any]) -> Item:
    variant = f" ({row['model_variant']})" if row["model_variant"] else ""
    label = row["classification_label"]
    seen = f"{row['model']}{variant} got worse (label {'unknown' if label is None else label})"
    page = page_of("models") if label is None else page_of("models", label=label)
    sessions = _worst_sessions(facts.sessions, row["worst_sessions"])
    from evaluation_pipelines.comparison.domain.regressions import alert_sentences  # slow to import

    parts = (Part("", alert_sentences(row)), *sessions)
    since = row["window_since"].date()
    remedy = "Read its worst sessions. If they confirm it, prefer another model for this label."
    return Item(REGRESSION, "models", State.WARNING, seen, remedy, _SHOW, page, since, parts)


def _worst_sessions(rows: pl.DataFrame | None, keys: Sequence[str]) -> list[Part]:
    """Return the sessions that are known, the lowest scores first; else only their keys."""
    if rows is None:
        return [Part("", key) for key in keys]
    return _lowest(rows.filter(pl.col("session_key").is_in(keys), ~pl.col(WAITS)))


def _lowest(rows: pl.DataFrame) -> list[Part]:
    worst_first = rows.sort("effective_100", "session_key", nulls_last=True, maintain_order=True)
    return [_session(row) for row in worst_first.head(_MOST_SESSIONS).iter_rows(named=True)]


def _session(row: Mapping[str, Any]) -> Part:
    """Return a session: the key first, since the terminal asks for it."""
    when, names = f"{row['started_at']:%m-%d %H:%M}", (row["agent_id"], row["model"])
    failed = ", failed" if row["status"] == "failed" else ""
    about = ", ".join(name or "unknown" for name in names)
    return Part(
        row["session_key"],
        f"score {points(row['effective_100'])}{failed} ({when}, {about})",
        page_of("sessions", row["session_key"], "score", organization=row["organization_id"]),
    )


def _alerts(facts: Facts) -> Iterator[Item]:
    """Yield what runs reported and is still open, newest first."""
    for alert in reversed(facts.alerts):
        if alert.alert.kind == QUALITY_RISKS:
            if alert.alert_id in facts.risks and not facts.risks[alert.alert_id].rows.is_empty():
                yield _risks(alert, facts.risks[alert.alert_id])
        elif alert.alert.kind not in SENT:
            yield _reported(facts, alert)


def _risks(raised: RaisedAlert, found: Risks) -> Item:
    fewer = found.why_fewer()
    parts = ([] if fewer is None else [Part("", fewer)]) + _lowest(found.rows)
    page, since = page_of("sessions", alert=f"{raised.alert_id}"), found.rows["started_at"].min()
    return Item(
        *(QUALITY_RISKS, "alerts", State.WARNING, below_threshold(found.rows.height)),
        *("Read why. Correct a wrong score on the page of its session.", _SHOW, page),
        since if isinstance(since, datetime) else None,
        (*parts,),
    )


def _reported(facts: Facts, raised: RaisedAlert) -> Item:
    """Return what a run reported."""
    alert = raised.alert
    since = date.fromisoformat(alert.cause) if alert.kind == OPEN_BOOKS else raised.raised_at
    remedy, command = advice_of(alert.kind, alert.cause)
    told = alert.text.splitlines()[: None if command is None else 1]  # then what to do
    return Item(
        *(alert.kind, "alerts", State.WARNING, alert.title, remedy, command),
        *(_page_of(facts, raised), since),
        tuple(Part("", message) for message in told),
    )


def _page_of(facts: Facts, raised: RaisedAlert) -> Page:
    alert = raised.alert
    run_id = run_of(alert) if alert.kind == FAILED_RUN else None
    if run_id is not None and facts.dagster_url is not None:
        return Page(("runs", run_id), server=facts.dagster_url)
    if alert.kind == OPEN_BOOKS:
        return books_page(alert.cause)
    if alert.kind == SPENDING:
        return _spent_page(*alert.cause.split(" / "))
    return JUDGE if alert.kind in {JUDGE_DOWN, UNJUDGED} else DOCTOR


def _spent_page(period: str, spender: str, name: str, *owner: str) -> Page:
    """Return the sessions of a spender in a day or month, most expensive first."""
    first, last = days_of(period)
    organization = {"organization": owner[0]} if owner else {}
    days = {"from": f"{first}", "to": f"{last}", "sort": "-cost"}
    return page_of("sessions", **days, **organization, **{spender: name})


def _clock(now: datetime, arrivals: Sequence[Arrival]) -> Item:
    newest = max((arrival.last_event for arrival in arrivals), default=now)
    seen = f"It is {now:%Y-%m-%d %H:%M:%S} UTC here"
    if newest - now <= _CLOCK_TOLERANCE:
        return Item("clock", "clock", State.OK, seen)
    ahead = (newest - now).total_seconds() / 60
    seen += f", and the latest event is {ahead:,.0f} minutes later"
    advice = "Set the clock of this machine or of the sender (NTP)."
    return Item("clock", "clock", State.WARNING, seen, advice)
