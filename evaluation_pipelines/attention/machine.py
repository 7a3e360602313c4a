"""What the machine itself tells: settings, disk, permissions, and what should answer."""

import pwd
import shutil
import socket
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from evaluation_pipelines.attention.domain.facts import Answer, Examined, Facts, Folder
from evaluation_pipelines.judging.rubric_files import read_rubrics
from evaluation_pipelines.reporting.served_copy import served_copy
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
    files, why_not_listed = _landed(settings)
    return replace(
        facts_of_machine(settings, now),
        examined=Examined(answers=[*answers(settings, None)] if asks else ()),
        unread_bytes=sum(each.size_bytes for each in files),
        oldest_unread=_oldest(files),
        why_not_listed=why_not_listed,
    )


def facts_of_machine(settings: Settings, now: datetime) -> Facts:
    """Return what needs no stores."""
    dagster = settings.dagster_url
    return Facts(
        now=now,
        price_faults=read_own_prices(settings.prices_path).faults,
        served_copies=[copy] if (copy := served_copy(settings)) else [],
        dagster_url=None if dagster is None else str(dagster).rstrip("/"),
        is_judge_named=settings.judge_model is not None,
        why_no_judge=settings.why_no_judge,
        rubric_faults=list(read_rubrics(settings.judge_rubrics_dir).faults.values()),
        limit_usd=settings.judge_max_cost_per_day_usd,
        free_bytes=_free_bytes(settings.data_dir),
        folders=list(_folders(settings)),
        versions=_versions(),
        stale_hours=settings.stale_telemetry_hours,
    )


def source_answer(stores: Stores) -> tuple[Sequence[Answer], dict[date, int]]:
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


def answers(settings: Settings, serves_at: str | None) -> Iterator[Answer]:
    """Yield what should answer, and whether it does; ``serves_at`` is the service that asks."""
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


def _landed(settings: Settings) -> tuple[list[LandingFile], str | None]:
    """Return the landing files, and why they cannot be listed."""
    try:
        landing = open_landing(settings.landing_dir)
        return landing.list_files()[0], None
    except LandingError as error:
        return [], str(error)


def _oldest(files: Iterable[LandingFile]) -> datetime | None:
    """Return when the oldest of some files was last written."""
    written = min((each.modified_at_ns for each in files), default=None)
    return None if written is None else datetime.fromtimestamp(written / 1e9, UTC)


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
