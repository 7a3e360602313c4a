"""Whether an installation is well: checks of what was found, each with what to do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum

from evaluation_pipelines.doctor.domain.arrivals import Arrival
from evaluation_pipelines.doctor.domain.cost_check import CostCheck
from evaluation_pipelines.formatting import age, usd

_GIB = 2**30
READ_WITHIN = timedelta(minutes=1)
"""Time within which what runs reads new telemetry."""

_BUILT_WITHIN = timedelta(minutes=30)
_SILENT_AFTER = timedelta(minutes=5)
_CLOCK_TOLERANCE = timedelta(minutes=2)
_FAIL_BELOW, _WARN_BELOW = 1 * _GIB, 5 * _GIB
_BUDGET_WARNING = 0.8


class State(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its area, outcome, what was seen, and what to do unless it is ok.

    ``page`` is the path of a page of the service that has what helps.
    """

    area: str
    state: State
    seen: str
    advice: str | None = None
    page: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether something answers at an address; ``error`` says why not."""

    name: str
    address: str
    error: str | None
    advice: str
    is_expected: bool = True


@dataclass(frozen=True, slots=True)
class AtWork:
    """A process that holds a lock, and when it last made progress."""

    lock: str
    process: str
    last_progress_at: datetime


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An alert: what is left to do, what helps, and the path of a page that has it."""

    seen: str
    advice: str
    page: str | None = None


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of the installation and its permission bits; ``None`` if it does not exist."""

    name: str
    path: str
    mode: int | None
    owner: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found; the attributes of a part are those that its checks need.

    Attributes:
        now: The time of this machine.
        arrivals: Telemetry of the last days, by program.
        is_unseen: Whether files of these days are damaged, so that some may be missing.
        costs: Reported costs of the last days next to list prices, by program.
        price_faults: What is wrong with the file of own prices.
        is_telemetry_ever: Whether any was ever read.
        unread_bytes: Bytes in the landing folder that are not read.
        oldest_unread: Since when the oldest of these bytes wait.
        why_not_listed: Why the landing files cannot be listed; ``None`` if they can.
        quarantined: Lines in quarantine of the last days.
        newest_quarantined: Where the newest of them is, and why it could not be read.
        late_rows: Rows of ClickHouse by day that arrived too late to be read.
        damage: Files of the lake that are damaged or missing, each with what to do.
        served_copies: Tables in ClickHouse that erasure does not reach, each with what to do.
        due: Dates to build, and since when the oldest waits.
        parked: Dates that are given up.
        at_work: Processes that hold locks.
        alerts: Open alerts.
        answers: What should answer.
        serves_at: Address of the service that asks; ``None`` in a terminal.
        is_judge_named: Whether the settings name a model as the judge.
        why_no_judge: Why nothing is judged; ``None`` if a judge is configured.
        rubric_faults: What is wrong with the rubrics that cannot be used.
        spent_usd: Spent by the judge today.
        limit_usd: Its limit a day; ``None`` without one.
        free_bytes: Free on the disk of the data folder.
        folders: Folders and their permissions.
        versions: Name and version of what matters.
        newest_event: Time of the newest event as its sender saw it.
        stale_hours: Hours after which a program counts as silent.
    """

    now: datetime
    arrivals: Sequence[Arrival] = ()
    is_unseen: bool = False
    costs: Mapping[str, CostCheck] = field(default_factory=dict)
    price_faults: Sequence[str] = ()
    is_telemetry_ever: bool = False
    unread_bytes: int = 0
    oldest_unread: datetime | None = None
    why_not_listed: str | None = None
    quarantined: int = 0
    newest_quarantined: str | None = None
    late_rows: Mapping[date, int] = field(default_factory=dict)
    damage: Sequence[str] = ()
    served_copies: Sequence[tuple[str, str]] = ()
    due: int = 0
    due_since: datetime | None = None
    parked: Sequence[str] = ()
    at_work: Sequence[AtWork] = ()
    alerts: Sequence[OpenAlert] = ()
    answers: Sequence[Answer] = ()
    serves_at: str | None = None
    is_judge_named: bool = False
    why_no_judge: str | None = None
    rubric_faults: Sequence[str] = ()
    spent_usd: float = 0.0
    limit_usd: float | None = None
    free_bytes: int = 0
    folders: Sequence[Folder] = ()
    versions: dict[str, str] = field(default_factory=dict)
    newest_event: datetime | None = None
    stale_hours: float = 24.0


def diagnose(facts: Facts) -> list[Check]:
    """Return all checks, by area."""
    return [
        _unread(facts),
        *_telemetry(facts),
        *_running(facts),
        *map(_damage, facts.damage),
        *(Check("tables", State.FAILED, *each) for each in facts.served_copies),
        *_judge(facts),
        *_disk(facts),
        *map(_permissions, facts.folders),
        _versions(facts),
        _clock(facts),
    ]


def worst(checks: Sequence[Check]) -> State:
    """Return the worst state of some checks."""
    states = {each.state for each in checks}
    return next((each for each in (State.FAILED, State.WARNING) if each in states), State.OK)


def _unread(facts: Facts) -> Check:
    if facts.why_not_listed is not None:
        advice = "EVAL_LANDING_DIR and the access keys in the environment say where telemetry is"
        return Check("telemetry", State.FAILED, facts.why_not_listed, advice)
    if not facts.unread_bytes:
        return Check("telemetry", State.OK, "all telemetry is read")
    seen = f"{facts.unread_bytes:,} bytes are not read yet"
    waits = facts.oldest_unread is not None and facts.now - facts.oldest_unread > READ_WITHIN
    if facts.is_telemetry_ever and not waits:
        return Check("telemetry", State.OK, seen)
    since = age(facts.oldest_unread, facts.now) or "now"
    advice = "keep make serve or make dev running, or run evaluation-pipelines ingest, then build"
    return Check("telemetry", State.FAILED, f"{seen}, the oldest written {since}", advice)


def _telemetry(facts: Facts) -> Iterator[Check]:
    yield from _arrivals(facts)
    yield from _not_read(facts)


def _arrivals(facts: Facts) -> Iterator[Check]:
    if not facts.arrivals and facts.due:
        advice = "run evaluation-pipelines build (make serve and make dev do it)"
        yield Check("telemetry", State.WARNING, "arrived and read, not built yet", advice)
    elif not facts.arrivals and not facts.unread_bytes and not facts.is_unseen:
        ever = "no telemetry in the last 7 days" if facts.is_telemetry_ever else "no telemetry yet"
        endpoint = "" if facts.serves_at is None else f" --endpoint {facts.serves_at}"
        advice = f"evaluation-pipelines agent-config codex{endpoint}"
        advice += " prints the settings of that agent; see docs/team.md"
        yield Check("telemetry", State.FAILED, ever, advice)
    for each in facts.arrivals:
        seen = f"{each.program}: {each.events_per_day:.0f} events a day, the newest "
        seen += age(each.last_event, facts.now) or "now"
        seen += _off_list_price(facts.costs.get(each.program, CostCheck()))
        if facts.now - each.last_event > timedelta(hours=facts.stale_hours):
            advice = f"silent for more than {facts.stale_hours:g} hours: does it still send?"
            yield Check("telemetry", State.WARNING, seen, advice)
        else:
            yield Check("telemetry", State.OK, seen)
        for gap in each.gaps:
            missing = f"{each.program}: {gap.what} {gap.lack}; for {gap.figures}"
            yield Check("telemetry", State.WARNING, missing, gap.switch)


def _not_read(facts: Facts) -> Iterator[Check]:
    if facts.quarantined:
        seen = f"{facts.quarantined} lines of the last 7 days could not be read"
        if facts.newest_quarantined is not None:
            seen += f", the newest: {facts.newest_quarantined}"
        yield Check("telemetry", State.WARNING, seen, "evaluation-pipelines quarantine list")
    for fault in facts.price_faults:
        advice = "correct it, see docs/telemetry.md; what is read until then has no such price"
        yield Check("telemetry", State.WARNING, fault, advice)
    for day, rows in facts.late_rows.items():
        seen = f"{rows} rows of {day} in ClickHouse arrived later than the overlap: not read"
        minutes = (facts.now.date() - day).days * 1440 + 1440
        advice = (
            f"ingest once with EVAL_OTEL_LOGS_OVERLAP_MINUTES={minutes}: what was read before "
            "counts once; then set an overlap that suffices"
        )
        yield Check("telemetry", State.WARNING, seen, advice)


def _off_list_price(costs: CostCheck) -> str:
    if not costs.off:
        return ""
    of_all = f"{costs.off} of {costs.sessions} sessions"
    return f"; the reported cost of {of_all} is more than a tenth off the list price"


def _running(facts: Facts) -> Iterator[Check]:
    if facts.parked:
        days = ", ".join(facts.parked)
        advice = "status says why; evaluation-pipelines build --date tries again"
        yield Check("running", State.FAILED, f"cannot be built: {days}", advice)
    late = facts.due_since is not None and facts.now - facts.due_since > _BUILT_WITHIN
    if facts.due and late:
        since = age(facts.due_since, facts.now)
        advice = "keep make serve or make dev running, or run evaluation-pipelines build"
        yield Check("running", State.FAILED, f"dates to build: {facts.due}, since {since}", advice)
    else:
        seen = f"dates to build: {facts.due}" if facts.due else "all dates are built"
        yield Check("running", State.OK, seen)
    for each in facts.at_work:
        if facts.now - each.last_progress_at > _SILENT_AFTER:
            since = age(each.last_progress_at, facts.now)
            seen = f"{each.process} holds the lock {each.lock}, its last progress was {since}"
            advice = "check whether it hangs, and end it: others wait for it"
            yield Check("running", State.WARNING, seen, advice)
    yield from map(_answer, facts.answers)
    for alert in facts.alerts:
        yield Check("alerts", State.WARNING, alert.seen, alert.advice, alert.page)


def _damage(damage: str) -> Check:
    what, _, advice = damage.partition(". ")
    return Check("tables", State.FAILED, what, advice)


def _answer(answer: Answer) -> Check:
    where = f"{answer.name} at {answer.address}"
    if answer.error is None:
        return Check("running", State.OK, f"{where} answers")
    if not answer.is_expected:
        return Check("running", State.OK, f"no {where}, and the settings name none")
    return Check("running", State.FAILED, f"{where} does not answer: {answer.error}", answer.advice)


def _judge(facts: Facts) -> Iterator[Check]:
    for fault in facts.rubric_faults:
        yield Check("judge", State.FAILED, fault, "its profiles do not judge, others do")
    if facts.why_no_judge is not None:
        # Whoever names a model expects it to judge.
        state = State.WARNING if facts.is_judge_named else State.OK
        yield Check("judge", state, facts.why_no_judge)
        return
    spent = f"{usd(facts.spent_usd)} spent or reserved today"
    if facts.limit_usd is None:
        yield Check(
            "budget",
            State.WARNING,
            f"{spent}, without a limit",
            "EVAL_JUDGE_MAX_COST_PER_DAY_USD sets one",
        )
        return
    share = facts.spent_usd / facts.limit_usd if facts.limit_usd else 1.0
    state = State.OK if share < _BUDGET_WARNING else State.WARNING
    advice = None if state is State.OK else "what is left over is judged tomorrow, or raise it"
    yield Check("budget", state, f"{spent} of {usd(facts.limit_usd)}", advice)


def _disk(facts: Facts) -> Iterator[Check]:
    free = facts.free_bytes
    seen = f"{free / _GIB:.1f} GiB free for data"
    if free < _WARN_BELOW:
        state = State.FAILED if free < _FAIL_BELOW else State.WARNING
        yield Check("disk", state, seen, "docs/operations.md says what may be deleted")
    else:
        yield Check("disk", State.OK, seen)


def _permissions(folder: Folder) -> Check:
    if folder.mode is None:
        return Check("permissions", State.OK, f"{folder.name}: {folder.path} is not there yet")
    seen = f"{folder.name}: {folder.path} is {folder.mode:04o}, of {folder.owner}"
    if folder.is_shared:  # collectors of other users may write there: its owner decides
        return Check("permissions", State.OK, seen)
    if folder.mode & 0o077:
        return Check("permissions", State.WARNING, seen, f"chmod 700 {folder.path}")
    return Check("permissions", State.OK, seen)


def _versions(facts: Facts) -> Check:
    return Check("versions", State.OK, ", ".join(f"{k} {v}" for k, v in facts.versions.items()))


def _clock(facts: Facts) -> Check:
    seen = f"it is {facts.now:%Y-%m-%d %H:%M:%S} UTC here"
    if facts.newest_event is not None and facts.newest_event - facts.now > _CLOCK_TOLERANCE:
        ahead = (facts.newest_event - facts.now).total_seconds() / 60
        return Check(
            "clock",
            State.WARNING,
            f"{seen}; the newest event is {ahead:.0f} minutes later",
            "set the clock of this machine or of the sender (NTP)",
        )
    return Check("clock", State.OK, seen)
