"""Facts that attention is derived from: rises of cost and failures, quality risks, arrivals."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Literal, TypeAlias

import polars as pl

from evaluation_pipelines.attention.domain.arrivals import Arrival, CostCheck
from evaluation_pipelines.attention.domain.messages import RaisedAlert, below_threshold
from evaluation_pipelines.numerics.student import LEVEL, t_quantile
from evaluation_pipelines.schemas import SESSION_KEY
from evaluation_pipelines.scorecards.domain.withheld import WAITS, SessionKey

COLUMNS = (
    *("organization_id", "agent_id", "person_id", "session_date"),
    *("total_tools", "tools_failed", "cost_usd"),
)
RECENT_DAYS, BEFORE_DAYS = 7, 28
"""The last complete days, and the days before them."""

_WEEKS = 13
"""Weeks of a quarter: with all agents and measures together, one false alarm in twenty quarters."""

_FEWEST = 10
"""Fewest person-days in each of the two periods for a statement."""

_LEAST_SHARE, _LEAST_COST = 0.05, 0.25
"""Rise of the share of failed calls, and of the cost relative to before, that matters."""

Measure: TypeAlias = Literal["failed calls", "cost per session"]
_AGENT = ("organization_id", "agent_id")


@dataclass(frozen=True, slots=True)
class Rise:
    """An agent's rate of the last days against the days before.

    Attributes:
        measure: Share of calls that failed, 0-1; or USD per session with a known cost.
        organization: The organization of the agent.
        agent: Its name.
        before: Rate of the days before.
        recent: Rate of the last days.
        low: Lower end of the interval of the difference, for all agents and a quarter of weeks.
        high: Its upper end.
        since: First of the last days.
    """

    measure: Measure
    organization: str
    agent: str
    before: float
    recent: float
    low: float
    high: float
    since: date


def rises(sessions: pl.DataFrame, today: date) -> list[Rise]:
    """Return the rises beyond chance that matter, by measure and agent.

    Args:
        sessions: COLUMNS of the sessions of the last RECENT_DAYS + BEFORE_DAYS days.
        today: The day that is not complete, which is left out.
    """
    since = today - timedelta(days=RECENT_DAYS)
    first = since - timedelta(days=BEFORE_DAYS)
    rows = sessions.drop_nulls("agent_id").filter(
        pl.col("session_date") >= first, pl.col("session_date") < today
    )
    is_recent = pl.col("session_date") >= since
    calls, costs = rows.filter(pl.col("total_tools") > 0), rows.drop_nulls("cost_usd")
    rates = [
        *_compared(calls, is_recent, "failed calls", pl.col("tools_failed"), pl.col("total_tools")),
        *_compared(costs, is_recent, "cost per session", pl.col("cost_usd"), pl.lit(1.0)),
    ]
    alpha = (1 - LEVEL) / (_WEEKS * max(len(rates), 1))
    found = (_rise(each, since, alpha) for each in rates)
    return [each for each in found if each is not None]


def _compared(
    rows: pl.DataFrame, is_recent: pl.Expr, measure: Measure, amount: pl.Expr, base: pl.Expr
) -> Iterator[Mapping[str, Any]]:
    """Yield the rates of agents with enough days of people in both times."""
    person_days = rows.group_by(*_AGENT, is_recent.alias("is_recent"), "session_date", "person_id")
    sums = person_days.agg(amount=amount.sum().cast(pl.Float64), base=base.sum().cast(pl.Float64))
    rate = pl.col("amount").sum() / pl.col("base").sum()
    residual = pl.col("amount") - rate * pl.col("base")
    number = pl.len()
    variance = residual.pow(2).sum() * number / (number - 1) / pl.col("base").sum().pow(2)
    sides = (
        sums.group_by(*_AGENT, "is_recent")
        .agg(rate=rate, variance=variance, number=number)
        .filter(pl.col("number") >= _FEWEST)
    )
    recent, before = sides.filter("is_recent"), sides.filter(~pl.col("is_recent"))
    both = recent.join(before, on=_AGENT, suffix="_before").sort(_AGENT)
    for row in both.iter_rows(named=True):
        yield {"measure": measure, **row}


def _rise(row: Mapping[str, Any], since: date, alpha: float) -> Rise | None:
    recent, before = row["rate"], row["rate_before"]
    rise = recent - before
    least = _LEAST_SHARE if row["measure"] == "failed calls" else _LEAST_COST * before
    if rise <= 0 or rise < least:
        return None
    parts = ((row["variance"], row["number"]), (row["variance_before"], row["number_before"]))
    variance = sum(part for part, _ in parts)
    half = 0.0
    if variance > 0:
        freedom = variance**2 / sum(part**2 / (number - 1) for part, number in parts)
        half = t_quantile(freedom, alpha) * variance**0.5
    if rise <= half:
        return None
    names = row["organization_id"], row["agent_id"]
    return Rise(row["measure"], *names, before, recent, rise - half, rise + half, since)


@dataclass(frozen=True, slots=True)
class Risks:
    """The sessions of an alert.

    Attributes:
        rows: Those to look at: still a risk, and not scored by a person.
        raised: Number of all.
        by_person: Number of those that a person has scored: nothing is left to do.
        waiting: Number of those whose score is withheld until their blind review.
    """

    rows: pl.DataFrame
    raised: int
    by_person: int
    waiting: int

    def title(self) -> str:
        """Return how many sessions there are to look at."""
        return below_threshold(self.rows.height)

    def why_fewer(self) -> str | None:
        """Say why the alert named more sessions; ``None`` if it did not."""
        others = self.raised - self.rows.height - self.by_person - self.waiting
        parts = [
            f"{number} {what}"
            for number, what in (
                (self.by_person, "now scored by a person"),
                (self.waiting, "awaiting review"),
                (others, "above it again"),
            )
            if number
        ]
        return f"{self.raised} in the alert, minus {', '.join(parts)}" if parts else None


def risks_of(rows: pl.DataFrame, sessions: Collection[SessionKey], is_risk: pl.Expr) -> Risks:
    """Return what is left to do of an alert.

    Args:
        rows: Rows of sessions, as ``withhold`` returns them, with ``effective_source``.
        sessions: The sessions of the alert.
        is_risk: Whether the score of a row is a risk.
    """
    keys = pl.DataFrame(list(sessions), dict.fromkeys(SESSION_KEY, pl.String()), orient="row")
    found = rows.join(keys, on=SESSION_KEY, how="semi", maintain_order="left")
    by_person = pl.col("effective_source").eq_missing("override")
    shown = found.filter(~pl.col(WAITS))
    return Risks(
        rows=shown.filter(~by_person, is_risk),
        raised=len(sessions),
        by_person=shown.filter(by_person).height,
        waiting=found.height - shown.height,
    )


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
class Folder:
    """A folder of the installation and its permission bits; ``None`` if it does not exist."""

    name: str
    path: str
    mode: int | None
    owner: str
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Examined:
    """What takes a while to find out.

    Attributes:
        arrivals: Telemetry of the last days, by program.
        is_unseen: Whether files of these days are damaged, so that some may be missing.
        costs: Reported costs of the last days next to list prices, by program.
        damage: Files of the lake that are damaged or missing, each with what to do.
        answers: What should answer.
        late_rows: Rows of ClickHouse by day that arrived too late to be read.
    """

    arrivals: Sequence[Arrival] = ()
    is_unseen: bool = False
    costs: Mapping[str, CostCheck] = field(default_factory=dict)
    damage: Sequence[str] = ()
    answers: Sequence[Answer] = ()
    late_rows: Mapping[date, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found; the attributes of a part are those that its items need.

    Attributes:
        now: The time of this machine.
        examined: What takes a while to find out; ``None`` if it is not known yet.
        is_telemetry_ever: Whether any was ever read.
        unread_bytes: Bytes in the landing folder that are not read.
        oldest_unread: Since when the oldest of these bytes wait.
        why_not_listed: Why the landing files cannot be listed; ``None`` if they can.
        silent: Agent programs that sent nothing for ``stale_hours``, each with its newest event;
            ``None`` while telemetry waits to be read or built, or sessions cannot be read.
        price_faults: What is wrong with the file of own prices.
        quarantined: Unreadable lines of telemetry of the last days.
        newest_quarantined: Where the newest of them is, and why it could not be read.
        signals_quarantined: Unreadable lines of signals and evaluations.
        quarantined_since: First of the last days.
        damage: Files of the lake that are damaged or missing, as far as readers met them.
        served_copies: Tables in ClickHouse that erasure does not reach, each with what to do.
        due: Dates to build.
        due_since: Since when the oldest waits.
        parked: Dates that are not retried, each with its attempts and the last error.
        at_work: Processes that hold locks.
        alerts: Open alerts, the oldest first.
        risks: What is left of alerts of quality risks, by alert.
        regressions: Rows of ``model_regressions`` in state "alert"; ``None`` if they cannot be
            read.
        rises: Agents whose failed calls or costs rose; ``None`` if sessions cannot be read.
        sessions: Rows of the sessions that regressions name, as ``withhold`` returns them.
        books: ``session_date``, ``state`` and ``sessions`` of the books of the last days.
        reviews: Sessions that await a blind review.
        dagster_url: Address of Dagster's interface.
        serves_at: Address of the service that asks; ``None`` in a terminal.
        is_judge_named: Whether the settings name a model as the judge.
        why_no_judge: Why nothing is judged; ``None`` if a judge is configured.
        rubric_faults: What is wrong with the rubrics that cannot be used.
        spent_usd: Spent by the judge today.
        limit_usd: Its limit a day; ``None`` without one.
        free_bytes: Free on the disk of the data folder.
        folders: Folders and their permissions.
        versions: Name and version of what matters.
        stale_hours: Hours after which a program counts as silent.
    """

    now: datetime
    examined: Examined | None = None
    is_telemetry_ever: bool = False
    unread_bytes: int = 0
    oldest_unread: datetime | None = None
    why_not_listed: str | None = None
    silent: Sequence[tuple[str, datetime]] | None = ()
    price_faults: Sequence[str] = ()
    quarantined: int = 0
    newest_quarantined: str | None = None
    signals_quarantined: int = 0
    quarantined_since: date | None = None
    damage: Sequence[str] = ()
    served_copies: Sequence[tuple[str, str]] = ()
    due: int = 0
    due_since: datetime | None = None
    parked: Sequence[tuple[date, int, str]] = ()
    at_work: Sequence[AtWork] = ()
    alerts: Sequence[RaisedAlert] = ()
    risks: Mapping[int, Risks] = field(default_factory=dict)
    regressions: Sequence[Mapping[str, Any]] | None = ()
    rises: Sequence[Rise] | None = ()
    sessions: pl.DataFrame | None = None
    books: pl.DataFrame | None = None
    reviews: int = 0
    dagster_url: str | None = None
    serves_at: str | None = None
    is_judge_named: bool = False
    why_no_judge: str | None = None
    rubric_faults: Sequence[str] = ()
    spent_usd: float = 0.0
    limit_usd: float | None = None
    free_bytes: int = 0
    folders: Sequence[Folder] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    stale_hours: float = 24.0
