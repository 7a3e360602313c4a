"""What was found out about an installation: all that its list of items is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import polars as pl

from evaluation_pipelines.attention.domain.arrivals import Arrival, CostCheck
from evaluation_pipelines.attention.domain.messages import RaisedAlert
from evaluation_pipelines.attention.domain.rises import Rise
from evaluation_pipelines.attention.domain.risks import Risks


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
