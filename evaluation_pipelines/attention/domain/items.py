"""What needs attention, and what is fine: one list for terminal, pages, digest and alerts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from shlex import quote
from typing import Any

import polars as pl

from evaluation_pipelines.attention.domain.arrivals import DAYS, CostCheck
from evaluation_pipelines.attention.domain.facts import (
    BEFORE_DAYS,
    RECENT_DAYS,
    Answer,
    Examined,
    Facts,
    Folder,
    Rise,
    Risks,
)
from evaluation_pipelines.attention.domain.messages import (
    DAMAGED,
    FAILED_RUN,
    JUDGE_DOWN,
    OPEN_BOOKS,
    PARKED,
    QUALITY_RISKS,
    REGRESSION,
    RISE,
    STALE,
    UNJUDGED,
    Alert,
    RaisedAlert,
    regression_cause,
    run_of,
    sanitize,
)
from evaluation_pipelines.formatting import age, listed, percent, pluralize, points, size, usd
from evaluation_pipelines.scorecards.domain.withheld import WAITS

_GIB = 2**30
_READ_WITHIN = timedelta(minutes=1)
"""Time within which a running service reads new telemetry."""

_BUILT_WITHIN = timedelta(minutes=30)
_HANGS_AFTER = timedelta(minutes=5)
_CLOCK_TOLERANCE = timedelta(minutes=2)
_FAIL_BELOW, _WARN_BELOW = 1 * _GIB, 5 * _GIB
_BUDGET_WARNING = 0.8
_MOST_SESSIONS = 5
_LONGEST_TITLE, _LONGEST_LINE = 300, 500
BOOKS_DAYS = 7
"""Days whose books are checked."""

_SENT_BY_STATE = {STALE, REGRESSION, RISE, PARKED, DAMAGED}
"""Kinds of alerts whose items come from the state itself, not from the stored alert."""

_INGEST = (
    "Keep make serve or make dev running, or run evaluation-pipelines ingest, then "
    "evaluation-pipelines build."
)
_BUILD = "Keep make serve or make dev running, or run evaluation-pipelines build."
_SHOW = "To see one: evaluation-pipelines show SESSION"


class State(StrEnum):
    """How urgent an item is; a task is something to do although nothing is wrong."""

    FAILED = "failed"
    WARNING = "warning"
    TASK = "task"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: parts of its path and fields of its query, not quoted; of the service by default."""

    path: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    server: str = ""


def page_of(*path: str, **query: str) -> Page:
    """Return a page of the service."""
    return Page(path, (*query.items(),))


DOCTOR = page_of("operations", "doctor")


@dataclass(frozen=True, slots=True)
class Part:
    """One of the subjects of an item; ``page`` shows details."""

    name: str
    seen: str
    page: Page | None = None

    def __str__(self) -> str:
        """Return a line."""
        return f"{self.name}: {self.seen}" if self.name else self.seen


@dataclass(frozen=True, slots=True)
class Item:
    """Something that needs attention, or that is fine.

    Attributes:
        kind: What sort of thing it is.
        area: The part of the installation that it is about.
        state: How urgent it is.
        seen: What is wrong, or fine, in a sentence.
        advice: What to do, with the command; ``None`` if nothing.
        page: The page to act on it.
        since: When it began.
        parts: What it is about one by one.
        is_for_all: Whether callers limited to one organization also see it, about their data.
    """

    kind: str
    area: str
    state: State
    seen: str
    advice: str | None = None
    page: Page | None = None
    since: datetime | date | None = None
    parts: tuple[Part, ...] = ()
    is_for_all: bool = False

    @property
    def since_text(self) -> str | None:
        """When it began, to the minute where that is known."""
        if isinstance(self.since, datetime):
            return f"{self.since:%Y-%m-%d %H:%M}"
        return None if self.since is None else f"{self.since}"

    @property
    def title(self) -> str:
        """The sentence, and since when."""
        return self.seen if self.since is None else f"{self.seen} (since {self.since_text})"

    @property
    def lines(self) -> tuple[str, ...]:
        """What it is about one by one, then what to do."""
        return (*map(str, self.parts), *([self.advice] if self.advice else []))


def attention(facts: Facts) -> list[Item]:
    """Return all items: failed ones first, then warnings, tasks, and what is fine."""
    found = [
        *_telemetry(facts),
        *_running(facts),
        *_tables(facts),
        *_models(facts),
        *_alerts(facts),
        *_reviews(facts),
        *_judge(facts),
        *_machine(facts),
    ]
    order = list(State)
    return sorted(found, key=lambda each: order.index(each.state))


def needing(items: Sequence[Item]) -> list[Item]:
    """Return the items that need attention."""
    return [each for each in items if each.state is not State.OK]


def worst(items: Sequence[Item]) -> State:
    """Return the worst state of some items; a task is not a fault."""
    states = {each.state for each in items}
    return next((each for each in (State.FAILED, State.WARNING) if each in states), State.OK)


def sent(facts: Facts) -> dict[str, dict[str, Item] | None]:
    """Return the items sent as alerts: kind -> cause -> item; ``None`` for an unknown kind.

    The other alerts are raised by the runs that they are about.
    """
    silent, damage = facts.silent, _damage_of(facts)
    return {
        STALE: None if silent is None else {each[0]: _silent(facts, [each]) for each in silent},
        PARKED: {f"{each[0]}": _parked([each]) for each in facts.parked},
        DAMAGED: {each: _damaged(each) for each in damage},
        REGRESSION: None
        if facts.regressions is None
        else {regression_cause(each): _regression(facts, each) for each in facts.regressions},
        RISE: None
        if facts.rises is None
        else {_rise_cause(each): _rise(each) for each in facts.rises},
    }


def alert_of(cause: str, item: Item) -> Alert:
    """Return an item as an alert: the same words, as plain text for a chat program."""
    text = "\n".join(sanitize(each, _LONGEST_LINE) for each in item.lines)
    return Alert(item.kind, cause, sanitize(item.seen, _LONGEST_TITLE), text)


def _telemetry(facts: Facts) -> Iterator[Item]:
    yield _unread(facts)
    if facts.examined is not None:
        yield from _arrivals(facts, facts.examined)
    if facts.silent:
        yield _silent(facts, facts.silent)
    if facts.quarantined or facts.signals_quarantined:
        yield _quarantine(facts)
    for fault in facts.price_faults:
        advice = "Correct it (docs/telemetry.md). Telemetry read before then lacks this price."
        yield Item("prices", "telemetry", State.WARNING, fault, advice)


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
    return Item("unread", "telemetry", State.FAILED, seen, _INGEST, DOCTOR, since)


def _arrivals(facts: Facts, examined: Examined) -> Iterator[Item]:
    if not examined.arrivals and facts.due:
        seen = "Telemetry is read but not built yet"
        yield Item("unbuilt", "telemetry", State.WARNING, seen, _BUILD)
    elif not examined.arrivals and not facts.unread_bytes and not examined.is_unseen:
        days = f"No telemetry in the last {DAYS} days"
        seen = days if facts.is_telemetry_ever else "No telemetry yet"
        endpoint = "" if facts.serves_at is None else f" --endpoint {facts.serves_at}"
        advice = f"evaluation-pipelines agent-config codex{endpoint} prints the settings for Codex."
        advice += " Other agents: docs/service.md"
        yield Item("nothing", "telemetry", State.FAILED, seen, advice)
    silent = {name for name, _ in facts.silent or ()}
    for each in examined.arrivals:
        if each.program not in silent:
            seen = f"{each.program}: {each.events_per_day:.0f} events a day, last event "
            seen += age(each.last_event, facts.now) or "now"
            seen += _off_list_price(examined.costs.get(each.program, CostCheck()))
            yield Item("arriving", "telemetry", State.OK, seen)
    if gaps := [(each.program, gap) for each in examined.arrivals for gap in each.gaps]:
        parts = [
            Part(
                f"{name}, {gap.what}", f"{gap.lack} (affects {gap.figures}). To send: {gap.switch}"
            )
            for name, gap in gaps
        ]
        programs = listed(sorted({name for name, _ in gaps}))
        seen = f"Telemetry from {programs} lacks data that scores use"
        yield Item("gaps", "telemetry", State.WARNING, seen, None, DOCTOR, parts=(*parts,))
    for day, rows in examined.late_rows.items():
        late = pluralize(rows, "row")
        seen = f"{late} of {day} in ClickHouse arrived later than the overlap: not read"
        minutes = (facts.now.date() - day).days * 1440 + 1440
        advice = (
            f"Ingest once with EVAL_OTEL_LOGS_OVERLAP_MINUTES={minutes} (rows read before count "
            "once), then set an overlap that suffices."
        )
        yield Item("late", "telemetry", State.WARNING, seen, advice)


def _off_list_price(costs: CostCheck) -> str:
    if not costs.off:
        return ""
    of_all = f"{costs.off} of {costs.sessions} sessions"
    return f"; the reported cost of {of_all} is over 10% off the list price"


def _silent(facts: Facts, programs: Sequence[tuple[str, datetime]]) -> Item:
    names = [name for name, _ in programs]
    who = names[0] if len(names) == 1 else f"{len(names)} agent programs"
    parts = [
        Part(name, f"last event {newest:%Y-%m-%d %H:%M}", page_of("sessions", program=name))
        for name, newest in programs
    ]
    advice = (
        "Check that the collector is running and writing to the landing folder. "
        "evaluation-pipelines status shows how far each file has been read."
    )
    seen = f"No telemetry from {who} for over {facts.stale_hours:g} hours"
    return Item(STALE, "telemetry", State.WARNING, seen, advice, DOCTOR, parts=(*parts,))


def _quarantine(facts: Facts) -> Item:
    lines, signals = facts.quarantined, facts.signals_quarantined
    parts = [Part("", f"{lines} in telemetry (last {DAYS} days), {signals} in signals")]
    if facts.newest_quarantined is not None:
        parts.append(Part("newest", facts.newest_quarantined))
    return Item(
        *("quarantine", "telemetry", State.WARNING, pluralize(lines + signals, "unreadable line")),
        "To list them: evaluation-pipelines quarantine list",
        page_of("operations", "quarantine", since=f"{facts.quarantined_since}"),
        parts=(*parts,),
    )


def _running(facts: Facts) -> Iterator[Item]:
    if facts.parked:
        yield _parked(facts.parked)
    late = facts.due_since is not None and facts.now - facts.due_since > _BUILT_WITHIN
    seen = f"{pluralize(facts.due, 'date')} to build" if facts.due else "All dates are built"
    if facts.due and late:
        yield Item(*("due", "running", State.FAILED, seen, _BUILD, DOCTOR), since=facts.due_since)
    else:
        yield Item("due", "running", State.OK, seen)
    for each in facts.at_work:
        if facts.now - each.last_progress_at > _HANGS_AFTER:
            since = age(each.last_progress_at, facts.now)
            seen = f"{each.process} holds the lock {each.lock}; its last progress was {since}"
            advice = "If it hangs, end it: other processes wait for it."
            yield Item("lock", "running", State.WARNING, seen, advice)
    if facts.examined is not None:
        yield from map(_answer, facts.examined.answers)


def _parked(dates: Sequence[tuple[date, int, str]]) -> Item:
    (first, attempts, _), *others = dates
    seen = f"Build of {first} failed {attempts} times and stopped retrying"
    if others:
        seen = f"Builds of {len(dates)} dates failed and stopped retrying"
    parts = tuple(Part(f"{day}", error, _books(day)) for day, _, error in dates)
    advice = f"Fix the cause, then run: evaluation-pipelines build --date {first}"
    page = None if others else _books(first)
    return Item(PARKED, "running", State.FAILED, seen, advice, page, parts=parts)


def _answer(answer: Answer) -> Item:
    where = f"{answer.name} at {answer.address}"
    if answer.error is None:
        return Item("answer", "running", State.OK, f"{where} is responding")
    if not answer.is_expected:
        return Item("answer", "running", State.OK, f"No {where}, and the settings name none")
    seen = f"{where} is not responding: {answer.error}"
    return Item("answer", "running", State.FAILED, seen, answer.advice)


def _tables(facts: Facts) -> Iterator[Item]:
    yield from map(_damaged, _damage_of(facts))
    for seen, advice in facts.served_copies:
        yield Item("copy", "tables", State.FAILED, seen, advice)


def _damage_of(facts: Facts) -> list[str]:
    """Return each damaged file once."""
    examined = () if facts.examined is None else facts.examined.damage
    return list(dict.fromkeys([*facts.damage, *examined]))


def _damaged(damage: str) -> Item:
    what, _, advice = damage.partition(". ")
    return Item(DAMAGED, "tables", State.FAILED, what, advice, DOCTOR)


def _models(facts: Facts) -> Iterator[Item]:
    """Yield models that got worse, and agents whose failed calls or costs rose."""
    for row in facts.regressions or ():
        yield _regression(facts, row)
    yield from map(_rise, facts.rises or ())


def _rise(rise: Rise) -> Item:
    shown = percent if rise.measure == "failed calls" else usd
    seen = f"{rise.agent}: {rise.measure} up from {shown(rise.before)} to {shown(rise.recent)}"
    if rise.measure == "failed calls":
        low, high = (points(100 * each) for each in (rise.low, rise.high))
        ends = f"{low} to {high} percentage points"
    else:
        ends = f"{usd(rise.low)} to {usd(rise.high)}"
    told = f"Up by {ends} in {RECENT_DAYS} days, compared with the {BEFORE_DAYS} days before"
    advice = f"To list its sessions: evaluation-pipelines sessions --agent {quote(rise.agent)}"
    page = page_of("agents", rise.agent, organization=rise.organization)
    return Item(RISE, "agents", State.WARNING, seen, advice, page, rise.since, (Part("", told),))


def _rise_cause(rise: Rise) -> str:
    return f"{rise.measure} / {rise.organization} / {rise.agent}"


def _regression(facts: Facts, row: Mapping[str, Any]) -> Item:
    variant = f" ({row['model_variant']})" if row["model_variant"] else ""
    label = row["classification_label"]
    seen = f"{row['model']}{variant} got worse (label {'unknown' if label is None else label})"
    page = page_of("models") if label is None else page_of("models", label=label)
    sessions = _worst_sessions(facts.sessions, row["worst_sessions"])
    from evaluation_pipelines.comparison.domain.regressions import alert_sentences  # slow to import

    parts = (Part("", alert_sentences(row)), *sessions)
    since = row["window_since"].date()
    return Item(REGRESSION, "models", State.WARNING, seen, _SHOW, page, since, parts)


def _worst_sessions(rows: pl.DataFrame | None, keys: Sequence[str]) -> list[Part]:
    """Return the sessions that are known, the lowest scores first; else only their keys."""
    if rows is None:
        return [Part("", key) for key in keys]
    return _lowest(rows.filter(pl.col("session_key").is_in(keys), ~pl.col(WAITS)))


def _lowest(rows: pl.DataFrame) -> list[Part]:
    worst_first = rows.sort("effective_100", nulls_last=True, maintain_order=True)
    return [_session(row) for row in worst_first.head(_MOST_SESSIONS).iter_rows(named=True)]


def _session(row: Mapping[str, Any]) -> Part:
    """Return a session: the key first, since the terminal asks for it."""
    when, names = f"{row['started_at']:%m-%d %H:%M}", (row["agent_id"], row["model"])
    failed = ", failed" if row["status"] == "failed" else ""
    about = ", ".join(each or "unknown" for each in names)
    return Part(
        row["session_key"],
        f"score {points(row['effective_100'])}{failed} ({when}, {about})",
        page_of("sessions", row["session_key"], "score", organization=row["organization_id"]),
    )


def _alerts(facts: Facts) -> Iterator[Item]:
    """Yield what runs reported and is still open, newest first."""
    for each in reversed(facts.alerts):
        if each.alert.kind == QUALITY_RISKS:
            if each.alert_id in facts.risks and not facts.risks[each.alert_id].rows.is_empty():
                yield _risks(each, facts.risks[each.alert_id])
        elif each.alert.kind not in _SENT_BY_STATE:
            yield _reported(facts, each)


def _risks(raised: RaisedAlert, found: Risks) -> Item:
    fewer = found.why_fewer()
    parts = ([] if fewer is None else [Part("", fewer)]) + _lowest(found.rows)
    page, since = page_of("sessions", alert=f"{raised.alert_id}"), found.rows["started_at"].min()
    return Item(
        *(QUALITY_RISKS, "alerts", State.WARNING, found.title(), _SHOW, page),
        since if isinstance(since, datetime) else None,
        (*parts,),
    )


def _reported(facts: Facts, raised: RaisedAlert) -> Item:
    """Return what a run reported; the lines of the alert end with what to do."""
    alert = raised.alert
    since = date.fromisoformat(alert.cause) if alert.kind == OPEN_BOOKS else raised.raised_at
    return Item(
        *(alert.kind, "alerts", State.WARNING, alert.title, None, _page_of(facts, raised), since),
        tuple(Part("", each) for each in alert.text.splitlines()),
    )


def _page_of(facts: Facts, raised: RaisedAlert) -> Page | None:
    alert = raised.alert
    if alert.kind == FAILED_RUN:
        run_id = run_of(alert)
        if run_id is None or facts.dagster_url is None:
            return None
        return Page(("runs", run_id), server=facts.dagster_url)
    if alert.kind == OPEN_BOOKS:
        return _books(alert.cause)
    return page_of("operations", "judge") if alert.kind in {JUDGE_DOWN, UNJUDGED} else None


def _reviews(facts: Facts) -> Iterator[Item]:
    if facts.books is not None:
        for state, meaning in (("failed", "could not be scored"), ("deferred", "are postponed")):
            books = facts.books.filter(state=state)
            if not books.is_empty():
                yield _of_books(books, state, meaning)
    if facts.reviews:
        yield Item(
            *("reviews", "reviews", State.TASK),
            f"{pluralize(facts.reviews, 'session')} to review blind",
            "Shows how far automatic scores can be trusted. Requires a reviewer key.",
            page_of("reviews"),
            is_for_all=True,
        )


def _of_books(books: pl.DataFrame, state: str, meaning: str) -> Item:
    """Return the sessions in a state of the books, from the newest day that has any."""
    newest = max(books["session_date"])
    number = int(books.filter(session_date=newest)["sessions"].sum())
    before = int(books["sessions"].sum()) - number
    parts = (Part("", f"{before} more in the {BOOKS_DAYS} days before"),) if before else ()
    if number == 1:
        meaning = meaning.replace("are ", "is ")
    return Item(
        *(f"books_{state}", "reviews", State.TASK),
        f"{pluralize(number, 'session')} of {newest} {meaning}",
        f"Reasons: evaluation-pipelines books {newest} --sessions {state}",
        page_of("operations", "books", f"{newest}", state=state),
        parts=parts,
        is_for_all=True,
    )


def _judge(facts: Facts) -> Iterator[Item]:
    for fault in facts.rubric_faults:
        advice = "Its profiles do not judge, others do."
        yield Item("rubric", "judge", State.FAILED, fault, advice)
    if facts.why_no_judge is not None:
        # Naming a model means that it should judge.
        state = State.WARNING if facts.is_judge_named else State.OK
        yield Item("judge", "judge", state, facts.why_no_judge)
        return
    spent = f"{usd(facts.spent_usd)} spent or reserved by the judge today"
    if facts.limit_usd is None:
        advice = "EVAL_JUDGE_MAX_COST_PER_DAY_USD sets a limit."
        yield Item("budget", "budget", State.WARNING, f"{spent}, without a limit", advice)
        return
    share = facts.spent_usd / facts.limit_usd if facts.limit_usd else 1.0
    is_ok = share < _BUDGET_WARNING
    seen = f"{spent}, of {usd(facts.limit_usd)}"
    if is_ok:
        yield Item("budget", "budget", State.OK, seen)
    else:
        advice = "The rest is judged tomorrow, or raise the limit."
        yield Item("budget", "budget", State.WARNING, seen, advice)


def _machine(facts: Facts) -> Iterator[Item]:
    free = facts.free_bytes
    seen = f"{free / _GIB:.1f} GiB free for data"
    if free < _WARN_BELOW:
        state = State.FAILED if free < _FAIL_BELOW else State.WARNING
        yield Item("disk", "disk", state, seen, "docs/operations.md lists what may be deleted.")
    else:
        yield Item("disk", "disk", State.OK, seen)
    yield from map(_permissions, facts.folders)
    versions = ", ".join(f"{name} {version}" for name, version in facts.versions.items())
    yield Item("versions", "versions", State.OK, versions)
    yield _clock(facts)


def _permissions(folder: Folder) -> Item:
    if folder.mode is None:
        seen = f"{folder.name}: {folder.path} does not exist yet"
        return Item("permissions", "permissions", State.OK, seen)
    seen = f"{folder.name}: {folder.path} (mode {folder.mode:04o}, owner {folder.owner})"
    # Collectors of other users may write into a shared folder: its owner decides.
    if not folder.is_shared and folder.mode & 0o077:
        advice = f"chmod 700 {folder.path}"
        seen = f"Other users have access to {seen}"
        return Item("permissions", "permissions", State.WARNING, seen, advice)
    return Item("permissions", "permissions", State.OK, seen)


def _clock(facts: Facts) -> Item:
    arrivals = () if facts.examined is None else facts.examined.arrivals
    newest = max((each.last_event for each in arrivals), default=facts.now)
    seen = f"It is {facts.now:%Y-%m-%d %H:%M:%S} UTC here"
    if newest - facts.now > _CLOCK_TOLERANCE:
        ahead = (newest - facts.now).total_seconds() / 60
        seen += f", and the newest event is {ahead:.0f} minutes later"
        advice = "Set the clock of this machine or of the sender (NTP)."
        return Item("clock", "clock", State.WARNING, seen, advice)
    return Item("clock", "clock", State.OK, seen)


def _books(day: date | str) -> Page:
    return page_of("operations", "books", f"{day}")
