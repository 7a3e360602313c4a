"""What the machine itself tells: settings, disk, permissions, and what should answer."""

import pwd
import shutil
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cache
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from evaluation_pipelines.attention.domain.item import (
    Item,
    State,
    answer,
    disk,
    judge_budget,
    no_judge,
    permissions,
    waiting_dates,
)
from evaluation_pipelines.attention.domain.items import Examined, Facts
from evaluation_pipelines.judging.rubric_files import read_rubrics
from evaluation_pipelines.reporting.analysts_database import served_copy
from evaluation_pipelines.settings import Settings
from evaluation_pipelines.storage.clickhouse import ClickHouseError, shown_dsn
from evaluation_pipelines.storage.landing import LandingError, LandingFile, open_landing
from evaluation_pipelines.storage.stores import Stores
from evaluation_pipelines.telemetry.otel_logs import late_rows
from evaluation_pipelines.telemetry.prices import read_own_prices

_PATIENCE_S = 2
_PACKAGES = ("evaluation-pipelines", "dagster", "duckdb", "polars", "genai-prices")
_SERVICE = "http://127.0.0.1:8400"


def gather_without_stores(settings: Settings, now: datetime, *, asks: bool) -> Facts:
    """Return what there is to list before anything is read; ``asks`` as of ``examine``."""
    files, why_not_listed = list[LandingFile](), None
    try:
        files, _ = open_landing(settings.landing_dir).list_files()
    except LandingError as error:
        why_not_listed = str(error)
    written = min((file.modified_at_ns for file in files), default=None)
    return Facts(
        now=now,
        examined=Examined(answers=[*answers(settings, None)] if asks else ()),
        unread_bytes=sum(file.size_bytes for file in files),
        oldest_unread=None if written is None else datetime.fromtimestamp(written / 1e9, UTC),
        why_not_listed=why_not_listed,
        others=[waiting_dates(0, None, now), *settings_items(settings, 0.0)],
    )


def settings_items(settings: Settings, spent_usd: float) -> Iterator[Item]:
    """Yield what follows from the settings, the machine, and what the judge spent today."""
    for fault in read_own_prices(settings.prices_path).faults:
        advice = "Correct it (docs/telemetry.md). Telemetry read before then lacks this price."
        yield Item("prices", "telemetry", State.WARNING, fault, advice)
    if copy := served_copy(settings):
        yield Item("copy", "tables", State.FAILED, *copy)
    for fault in read_rubrics(settings.judge_rubrics_dir).faults.values():
        yield Item("rubric", "judge", State.FAILED, fault, "Its profiles do not judge, others do.")
    if settings.why_no_judge is None:
        yield judge_budget(spent_usd, settings.judge_max_cost_per_day_usd)
    else:
        yield no_judge(settings.why_no_judge, is_named=settings.judge_model is not None)
    yield disk(_free_bytes(settings.data_dir))
    yield _permissions("data", settings.data_dir)
    if isinstance(settings.landing_dir, Path):  # of a bucket its provider knows who may do what
        yield _permissions("landing", settings.landing_dir, is_shared=True)
    yield Item("versions", "versions", State.OK, _versions())


def source_answer(stores: Stores) -> tuple[Sequence[Item], dict[date, int]]:
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
    return [answer("telemetry in ClickHouse", address, error, advice)], late


def answers(settings: Settings, serves_at: str | None) -> Iterator[Item]:
    """Yield what should answer, and whether it does; ``serves_at`` is the service that asks."""
    advice = "start it: make serve, or evaluation-pipelines serve --otlp"
    is_expected = settings.service_url is not None
    if serves_at is not None and not is_expected:
        yield answer("service", serves_at, None, advice)
    else:
        service = str(settings.service_url or _SERVICE).rstrip("/")
        yield answer(
            "service", service, _why_silent(f"{service}/health"), advice, is_expected=is_expected
        )
    if settings.dagster_url is not None:
        dagster = str(settings.dagster_url).rstrip("/")
        error = _why_silent(f"{dagster}/server_info")
        yield answer("Dagster", dagster, error, "start it: make dev")
    if settings.why_no_judge is None and settings.openai_base_url is not None:
        parts = urlsplit(str(settings.openai_base_url))
        address = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        yield answer("judge endpoint", address, _why_closed(address), "OPENAI_BASE_URL names it")


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
    above = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return shutil.disk_usage(above).free


def _permissions(name: str, path: Path, *, is_shared: bool = False) -> Item:
    path = path.absolute()
    if not path.exists():
        return permissions(name, str(path), None, "", is_shared=is_shared)
    found = path.stat()
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:  # a user of another machine or container
        owner = str(found.st_uid)
    return permissions(name, str(path), stat.S_IMODE(found.st_mode), owner, is_shared=is_shared)


@cache
def _versions() -> str:
    found = [f"Python {sys.version.split()[0]}"]
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):  # an extra that is not installed
            found.append(f"{name} {version(name)}")
    return ", ".join(found)
