"""Collect what ``diagnose`` needs: from the stores, the disk, and what should answer."""

import pwd
import shutil
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cache, partial
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import polars as pl

from evaluation_pipelines.doctor.domain.arrivals import (
    DAYS,
    EVENT_COLUMNS,
    SESSION_COLUMNS,
    arrivals,
)
from evaluation_pipelines.doctor.domain.cost_check import COST_COLUMNS, IS_CHECKED, cost_checks
from evaluation_pipelines.doctor.domain.diagnosis import Answer, AtWork, Facts, Folder, OpenAlert
from evaluation_pipelines.doctor.open_alerts import open_alerts
from evaluation_pipelines.judging.ledger.day_budget import spent_today
from evaluation_pipelines.judging.rubric_files import read_rubrics
from evaluation_pipelines.reporting.served_copy import served_copy
from evaluation_pipelines.schemas import AGENT_EVENTS, AGENT_SESSIONS, Table
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.clickhouse import ClickHouseError, shown_dsn
from evaluation_pipelines.storage.damage import find_damage
from evaluation_pipelines.storage.lake import LakeError
from evaluation_pipelines.storage.landing import LandingError, LandingFile
from evaluation_pipelines.storage.landing_source import open_landing
from evaluation_pipelines.storage.ledger.rebuild_queue import RebuildQueue
from evaluation_pipelines.storage.lock import Holder, holders
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.otel_logs import late_rows
from evaluation_pipelines.telemetry.own_price_file import read_own_prices
from evaluation_pipelines.telemetry.quarantine.entries import count_unresolved, newest_unresolved
from evaluation_pipelines.telemetry.unread_files import (
    UnreadFile,
    find_unread_files,
    unread_since,
)

_Value = TypeVar("_Value")

_PATIENCE_S = 2
_PACKAGES = ("evaluation-pipelines", "dagster", "duckdb", "polars", "genai-prices")
_SERVICE = "http://127.0.0.1:8400"


def examine_machine(
    settings: Settings, now: datetime, *, asks: bool, serves_at: str | None = None
) -> Facts:
    """Return what there is to diagnose before anything is read; arguments as of ``examine``."""
    files, why_not_listed = _landed(settings)
    return Facts(
        now=now,
        unread_bytes=sum(each.size_bytes for each in files),
        oldest_unread=_oldest(files),
        serves_at=serves_at,
        why_not_listed=why_not_listed,
        price_faults=read_own_prices(settings.prices_path).faults,
        served_copies=[copy] if (copy := served_copy(settings)) else [],
        answers=list(_answers(settings, serves_at)) if asks else (),
        is_judge_named=settings.judge_model is not None,
        why_no_judge=settings.why_no_judge,
        rubric_faults=list(read_rubrics(settings.judge_rubrics_dir).faults.values()),
        limit_usd=settings.judge_max_cost_per_day_usd,
        free_bytes=_free_bytes(settings.data_dir),
        folders=list(_folders(settings)),
        versions=_versions(),
        stale_hours=settings.stale_telemetry_hours,
    )


def examine(
    stores: Stores,
    now: datetime,
    *,
    asks: bool,
    serves_at: str | None = None,
    counts_rows: bool = False,
) -> Facts:
    """Return what there is to diagnose.

    Args:
        stores: The stores.
        now: The time.
        asks: Whether to ask the service, Dagster and the endpoint of the judge if they answer.
        serves_at: Address of the service that asks: it answers.
        counts_rows: Whether to count the rows of a source in ClickHouse, which can take a while.

    What a damaged file has is left out, and the file is part of the facts.

    Raises:
        LedgerError: The ledger cannot be used.
    """
    settings, readable = stores.settings, _Readable(stores)
    first = now.date() - timedelta(days=DAYS - 1)
    partitions = stores.lake.partitions(AGENT_EVENTS)
    days = [each for each in partitions if each >= first]
    events = readable.rows(AGENT_EVENTS, days, EVENT_COLUMNS)
    found = arrivals(events, readable.rows(AGENT_SESSIONS, days, SESSION_COLUMNS))
    is_unseen = bool(readable.errors)
    quarantined = readable.of(lambda: count_unresolved(stores, first), 0)
    newest = readable.of(lambda: _newest_quarantined(stores, first), None)
    alerts = readable.of(lambda: list(open_alerts(stores)), list[OpenAlert]())
    unread, why_not_listed = _unread(stores)
    queue = [each for each in RebuildQueue(stores.ledger).all() if not each.is_built]
    due = [each for each in queue if not each.parked]
    machine = examine_machine(settings, now, asks=asks, serves_at=serves_at)
    source, late = _source(stores) if counts_rows else ((), {})
    return replace(
        machine,
        answers=[*machine.answers, *source],
        late_rows=late,
        arrivals=found,
        is_unseen=is_unseen,
        costs=cost_checks(readable.rows(AGENT_EVENTS, days, COST_COLUMNS).filter(IS_CHECKED)),
        is_telemetry_ever=bool(partitions),
        unread_bytes=sum(each.file.size_bytes - each.position for each in unread),
        oldest_unread=unread_since(stores, unread),
        why_not_listed=why_not_listed,
        quarantined=quarantined,
        newest_quarantined=newest,
        damage=readable.damage(),
        due=len(due),
        due_since=min((each.touched_at for each in due), default=None),
        parked=[f"{each.session_date}" for each in queue if each.parked],
        at_work=_at_work(stores),
        alerts=alerts,
        spent_usd=spent_today(stores.ledger, now),
        newest_event=max((each.last_event for each in found), default=None),
    )


def _at_work(stores: Stores) -> list[AtWork]:
    """Return who holds locks: a build holds several dates at a time."""
    found: dict[str, list[Holder]] = {}
    for each in holders(stores.ledger):
        found.setdefault(each.holder_id, []).append(each)
    return [
        AtWork(
            one.name if not others else f"{one.name} and {len(others)} more",
            f"process {one.process_id} on {one.host}",
            one.last_progress_at,
        )
        for one, *others in found.values()
    ]


@dataclass(frozen=True, slots=True)
class _Readable:
    """What can be read although files may be damaged, and these files."""

    stores: Stores
    errors: list[str] = field(default_factory=list)

    def rows(self, table: Table, days: Sequence[date], columns: Sequence[str]) -> pl.DataFrame:
        """Return the rows of the days that can be read."""
        none = table.no_rows.select(columns)
        read = self.stores.lake.read
        return pl.concat(
            [none, *(self.of(partial(read, table, [day], columns), none) for day in days)]
        )

    def of(self, read: Callable[[], _Value], otherwise: _Value) -> _Value:
        """Return what can be read, or something in its place."""
        try:
            return read()
        except LakeError as error:
            self.errors.append(str(error))
            return otherwise

    def damage(self) -> list[str]:
        """Return each damaged file once: what was met here, and earlier."""
        self.errors.extend(self.of(lambda: find_damage(self.stores), list[str]()))
        met = (each.damage for each in RebuildQueue(self.stores.ledger).all())
        return list(dict.fromkeys([*filter(None, met), *self.errors]))


def _landed(settings: Settings) -> tuple[list[LandingFile], str | None]:
    """Return the landing files, and why they cannot be listed."""
    try:
        landing = open_landing(settings.landing_dir)
        return landing.list_files()[0], None
    except LandingError as error:
        return [], str(error)


def _newest_quarantined(stores: Stores, since: date) -> str | None:
    """Return where the newest line in quarantine is, and why it could not be read."""
    for each in newest_unresolved(stores, 1, since):
        return f"{stores.landing.shown(each.path)}, byte {each.offset}: {each.reason}"
    return None


def _unread(stores: Stores) -> tuple[list[UnreadFile], str | None]:
    """Return the files with unread bytes, and why they cannot be listed."""
    try:
        return find_unread_files(stores, in_order=False)[0], None
    except LandingError as error:
        return [], str(error)


def _oldest(files: Iterable[LandingFile]) -> datetime | None:
    """Return when the oldest of some files was last written."""
    written = min((each.modified_at_ns for each in files), default=None)
    return None if written is None else datetime.fromtimestamp(written / 1e9, UTC)


def _source(stores: Stores) -> tuple[Sequence[Answer], dict[date, int]]:
    """Return whether the source in ClickHouse answers, and its rows that arrived too late."""
    dsn = stores.settings.otel_logs_dsn
    if dsn is None:
        return (), {}
    error, late = None, dict[date, int]()
    try:
        late = late_rows(stores)
    except ClickHouseError as failure:
        error = str(failure)
    address, advice = shown_dsn(dsn.get_secret_value()), "EVAL_OTEL_LOGS_DSN names it"
    return [Answer("telemetry in ClickHouse", address, error, advice)], late


def _answers(settings: Settings, serves_at: str | None) -> Iterator[Answer]:
    advice = "start it: make serve, or evaluation-pipelines serve --otlp"
    is_expected = settings.service_url is not None
    if serves_at is not None and not is_expected:
        yield Answer("service", serves_at, None, advice)
    else:
        service = str(settings.service_url or _SERVICE).rstrip("/")
        yield Answer("service", service, _why_silent(f"{service}/health"), advice, is_expected)
    if settings.dagster_url is not None:
        dagster = str(settings.dagster_url).rstrip("/")
        error = _why_silent(f"{dagster}/server_info")
        yield Answer("Dagster", dagster, error, "start it: make dev")
    if settings.why_no_judge is None and settings.openai_base_url is not None:
        parts = urlsplit(str(settings.openai_base_url))
        address = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        yield Answer("judge endpoint", address, _why_closed(address), "OPENAI_BASE_URL names it")


def _why_silent(url: str) -> str | None:
    """Return why nothing answers with success; the URL is of the settings."""
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_S):  # noqa: S310 - http by the settings
            return None
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        return _reason(error)


def _why_closed(address: str) -> str | None:
    """Return why no connection is possible; nothing is sent, no key is needed."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_PATIENCE_S):
            return None
    except OSError as error:
        return _reason(error)


def _reason(error: BaseException) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return type(cause).__name__


def _free_bytes(folder: Path) -> int:
    """Return what is free on the disk of a folder, or of the nearest one above that exists."""
    above = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(above).free


def _folders(settings: Settings) -> Iterator[Folder]:
    yield _folder("data", settings.data_dir)
    if isinstance(settings.landing_dir, Path):  # of a bucket its provider knows who may do what
        yield _folder("landing", settings.landing_dir, is_shared=True)


def _folder(name: str, path: Path, *, is_shared: bool = False) -> Folder:
    path = path.absolute()
    if not path.exists():
        return Folder(name, str(path), None, "", is_shared)
    found = path.stat()
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:  # a user of another machine or container
        owner = str(found.st_uid)
    return Folder(name, str(path), stat.S_IMODE(found.st_mode), owner, is_shared)


@cache
def _versions() -> dict[str, str]:
    found = {"Python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # an extra that is not installed
            continue
    return found
