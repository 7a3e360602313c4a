"""Settings of stores: folders, databases, range of partitions."""

from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo
from pydantic_settings import BaseSettings

from evaluation_pipelines.settings.folder import LocalPath, Location

USUAL_START_DATE = date(2025, 1, 1)
START_DATE_FILE = "start_date"
"""File of the data folder with the first day of its partitions; the demo writes it."""

_LEDGER_SCHEMES = ("sqlite", "postgresql")


def _ledger_url(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.partition("+")[0] not in _LEDGER_SCHEMES:
        message = "must begin with sqlite:/// or postgresql+<driver>://"
        raise ValueError(message)
    return url


def _server(dsn: SecretStr | None) -> SecretStr | None:
    schemes = ("clickhouse://", "clickhouses://")
    if dsn is not None and not dsn.get_secret_value().startswith(schemes):
        raise ValueError(f"must begin with {' or '.join(schemes)}")
    return dsn


def _with_folder(dsn: SecretStr | None, known: ValidationInfo) -> SecretStr | None:
    if dsn is not None and not isinstance(known.data.get("landing_dir"), Path):
        message = "its rows become landing files: EVAL_LANDING_DIR must be a folder"
        raise ValueError(message)
    return dsn


def _start_date(data_dir: Path) -> date | str:
    path = data_dir / START_DATE_FILE
    return path.read_text("utf-8").strip() if path.is_file() else USUAL_START_DATE


class StoreSettings(BaseSettings):
    """Folders, databases and the range of the partitions."""

    data_dir: LocalPath = Field(
        default=Path("data"),
        description="folder of all data; relative to the working directory",
    )
    landing_dir: Location = Field(
        default_factory=lambda known: known["data_dir"] / "landing",
        description="folder that collectors write telemetry to, or `s3://bucket/prefix`; only "
        "read; `landing` in the data folder unless set",
        repr=False,
    )
    lake_dir: Location = Field(
        default_factory=lambda known: known["data_dir"] / "lake",
        description="folder of the Parquet tables, or `s3://bucket/prefix`; `lake` in the data "
        "folder unless set",
        repr=False,
    )
    ledger_url: Annotated[str, AfterValidator(_ledger_url)] = Field(
        default_factory=lambda known: f"sqlite:///{known['data_dir'] / 'ledger.db'}",
        description="database of positions, session index and scores, as `sqlite:///<path>` or "
        "`postgresql+<driver>://...`; `ledger.db` in the data folder unless set",
        repr=False,
    )
    analytics_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "analytics.duckdb",
        description="link to the analysts' database; `analytics.duckdb` in the data folder unless "
        "set",
    )
    publish_texts: bool = Field(
        default=False,
        description="add prompts, replies and parameters to the analysts' database, as the view "
        "`event_texts`",
    )
    serve_clickhouse_dsn: SecretStr | None = Field(
        default=None,
        description="no longer used: dashboards read the analysts' database or Parquet. While it "
        "is set, `doctor` and `forget` fail and say which tables to drop there",
        repr=False,
    )
    otel_logs_dsn: Annotated[
        SecretStr | None, AfterValidator(_server), AfterValidator(_with_folder)
    ] = Field(
        default=None,
        description="ClickHouse database whose table `otel_logs` is a source of telemetry: "
        "`clickhouse://user:password@host:8123/database`, or `clickhouses://` (TLS); only read",
        repr=False,
    )
    otel_logs_table: str = Field(
        default="otel_logs",
        pattern="^[A-Za-z_][A-Za-z0-9_]*$",
        description="table of the OpenTelemetry Collector's ClickHouse exporter",
    )
    otel_logs_overlap_minutes: int = Field(
        default=10,
        gt=0,
        description="how long after its time a row of `otel_logs` may arrive to be read",
    )
    reports_dir: Location = Field(
        default_factory=lambda known: known["data_dir"] / "reports",
        description="folder of the reports, HTML and markdown, or `s3://bucket/prefix`; `reports` "
        "in the data folder unless set",
        repr=False,
    )
    shared_group: str | None = Field(
        default=None,
        description="Unix group that may read the tables of figures, the analysts' database (while "
        "it has no texts) and the reports; all other files are private to their owner",
    )
    events_kept_days: int = Field(
        default=90,
        gt=0,
        description="days after which events of scorings and alerts are deleted; the scorings and "
        "alerts stay",
    )
    start_date: date = Field(
        default_factory=lambda known: _start_date(known["data_dir"]),
        validate_default=True,
        ge=date(2020, 1, 1),
        description="first day (UTC) of the partitions; older sessions are assigned to it; "
        "of a folder with the demo its first day",
    )
