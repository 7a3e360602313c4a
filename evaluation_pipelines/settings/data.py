"""Settings of data: where it is, how telemetry is read, who is who, how long it is kept."""

import json
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    ValidationInfo,
)

from evaluation_pipelines.schemas import AGENT_SESSIONS, RANKED_PERFORMANCE

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def _local_path(path: Path) -> Path:
    if _URL.match(str(path)):
        message = f"{path} is a URL. It must be a path of this machine"
        raise ValueError(message)
    # No shell expands "~" in .env: it would become a folder of that name.
    return path.expanduser()


LocalPath = Annotated[Path, AfterValidator(_local_path)]
"""Path of this machine with ``~`` expanded; a URL such as ``s3://bucket`` is refused."""

_OBJECT_STORE = re.compile(r"[a-z][a-z0-9]*://[^/?#@*\[\s]+(?:/[^?#@*\[\s]*)?\Z")


class ObjectStoreUrl(str):
    """Bucket, and the beginning of the keys in it, without a slash at the end."""

    __slots__ = ()


def _location(given: object) -> object:
    text = str(given)
    if not _URL.match(text):
        return Path(text).expanduser()
    if not _OBJECT_STORE.match(text):  # not shown: there may be a secret in it
        message = "must be a path or a URL such as s3://bucket/prefix, without user and query"
        raise ValueError(message)
    return ObjectStoreUrl(text.rstrip("/"))


Location = Annotated[Path | ObjectStoreUrl, PlainValidator(_location)]
"""Path of this machine with ``~`` expanded, or the URL of an object store."""


_TAKEN = frozenset((*AGENT_SESSIONS.schema, *RANKED_PERFORMANCE.schema))


def split_names(value: object) -> object:
    """Return the names of a list that is separated by commas."""
    if not isinstance(value, str):
        return value
    return tuple(name for name in map(str.strip, value.split(",")) if name)


def decoded(value: object) -> object:
    """Return the decoded value of a setting in JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("it is no JSON") from None


def column_of(attribute: str) -> str:
    """Return the column of an attribute in the analysts' database: ``jira.epic`` is jira_epic."""
    return re.sub(r"[^a-z0-9]+", "_", attribute.lower()).strip("_")


def checked_attributes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names sorted; reject those that would give no column, or one that exists.

    Raises:
        ValueError: with the first invalid name.
    """
    known: dict[str, str] = {}
    for name in sorted(set(names)):
        column = column_of(name)
        if not column or column[0].isdigit():
            raise ValueError(f"{name!r} gives no name of a column: it must start with a letter")
        if column in _TAKEN:
            raise ValueError(f"{name!r} would be the column {column}, which sessions have already")
        if column in known:
            raise ValueError(f"{name!r} and {known[column]!r} would both be the column {column}")
        known[column] = name
    return tuple(known.values())


USUAL_START_DATE = date(2025, 1, 1)
START_DATE_FILE = "start_date"
"""File of the data folder with the first day of its partitions; the demo writes it."""

_LEDGER_SCHEMES = ("sqlite", "postgresql")


def _ledger_url(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.partition("+")[0] not in _LEDGER_SCHEMES:
        message = "must start with sqlite:/// or postgresql+<driver>://"
        raise ValueError(message)
    return url


def _server(dsn: SecretStr | None) -> SecretStr | None:
    schemes = ("clickhouse://", "clickhouses://")
    if dsn is not None and not dsn.get_secret_value().startswith(schemes):
        raise ValueError(f"must start with {' or '.join(schemes)}")
    return dsn


def _with_folder(dsn: SecretStr | None, known: ValidationInfo) -> SecretStr | None:
    if dsn is not None and not isinstance(known.data.get("landing_dir"), Path):
        message = "its rows become landing files: EVAL_LANDING_DIR must be a folder"
        raise ValueError(message)
    return dsn


def _start_date(data_dir: Path) -> date | str:
    path = data_dir / START_DATE_FILE
    return path.read_text("utf-8").strip() if path.is_file() else USUAL_START_DATE


class SettingsSection(BaseModel):
    """Settings that belong together."""

    # Only ``Settings`` is built from values, and builds what it needs.
    model_config = ConfigDict(
        validate_default=True, validate_by_name=True, frozen=True, defer_build=True
    )


class StoreSettings(SettingsSection):
    """Folders, databases and the range of the partitions."""

    data_dir: LocalPath = Field(
        default=Path("data"),
        description="folder of all data, relative to the working directory",
    )
    landing_dir: Location = Field(
        default_factory=lambda known: known["data_dir"] / "landing",
        description="folder that collectors write telemetry to, or `s3://bucket/prefix`, only read",
        repr=False,
    )
    lake_dir: Location = Field(
        default_factory=lambda known: known["data_dir"] / "lake",
        description="folder of the Parquet tables, or `s3://bucket/prefix`",
        repr=False,
    )
    ledger_url: Annotated[str, AfterValidator(_ledger_url)] = Field(
        default_factory=lambda known: f"sqlite:///{known['data_dir'] / 'ledger.db'}",
        description="database of positions, session index and scores: `sqlite:///<path>` or "
        "`postgresql+<driver>://...`",
        repr=False,
    )
    analytics_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "analytics.duckdb",
        description="link to the analysts' database",
    )
    publish_texts: bool = Field(
        default=False,
        description="add prompts, replies and parameters to the analysts' database, as the view "
        "`event_texts`",
    )
    serve_clickhouse_dsn: SecretStr | None = Field(
        default=None,
        description="no longer used. While it is set, `doctor` and `forget` fail and list the "
        "tables to drop there",
        repr=False,
    )
    otel_logs_dsn: Annotated[
        SecretStr | None, AfterValidator(_server), AfterValidator(_with_folder)
    ] = Field(
        default=None,
        description="ClickHouse database with a table `otel_logs` of telemetry: "
        "`clickhouse://user:password@host:8123/database`, or `clickhouses://` (TLS), "
        "only read",
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
        description="folder of the reports, or `s3://bucket/prefix`",
        repr=False,
    )
    shared_group: str | None = Field(
        default=None,
        description="Unix group that may read tables without text, the analysts' database (while "
        "it has no text) and the reports",
    )
    events_kept_days: int = Field(
        default=90,
        gt=0,
        description="days after which events of judgments and alerts are deleted",
    )
    start_date: date = Field(
        default_factory=lambda known: _start_date(known["data_dir"]),
        validate_default=True,
        ge=date(2020, 1, 1),
        description="first day (UTC) of the partitions. Older sessions are assigned to it",
    )


def _engine(name: str) -> str:
    host, _, port = name.removeprefix("ray://").rpartition(":")
    is_address = name.startswith("ray://") and bool(host) and port.isdecimal()
    if name not in ("local", "ray") and not is_address:
        message = "must be local, ray or ray://<host>:<port>"
        raise ValueError(message)
    return name


class EngineSettings(SettingsSection):
    """Where ingest and builds run their work."""

    engine: Annotated[str, AfterValidator(_engine)] = Field(
        default="local",
        description="where ingest and builds run: `local`, `ray` (the Ray cluster in "
        "`RAY_ADDRESS`, or one on this machine) or `ray://<host>:<port>` (with the "
        "ledger in PostgreSQL)",
    )


_MIB = 1024 * 1024


class TelemetrySettings(SettingsSection):
    """Limits of ingest, and when a session counts as ended."""

    session_idle_minutes: int = Field(
        default=30, gt=0, description="minutes of silence after which a session counts as ended"
    )
    productivity_time: Literal["active", "window"] = Field(
        default="active",
        description="minutes by which productivity divides: `active` ones, or the whole "
        "`window`, for dates built after the change",
    )
    max_line_bytes: ByteSize = Field(
        default=ByteSize(64 * _MIB),
        gt=0,
        description="maximum length of a line. A longer one goes to quarantine",
    )
    batch_bytes: ByteSize = Field(
        default=ByteSize(8 * _MIB), gt=0, description="telemetry per committed batch"
    )
    ingest_processes: int | None = Field(
        default=None,
        ge=1,
        description="processes that decode a large file, default: one per core, at most 4",
    )
    parallel_from_bytes: ByteSize = Field(
        default=ByteSize(48 * _MIB),
        gt=0,
        description="unread bytes of a file from which several processes decode it",
    )
    max_decompression_ratio: int = Field(
        default=500,
        gt=0,
        description="maximum decompressed size as a multiple of the compressed size. The rest "
        "goes to quarantine",
    )
    max_attributes: int = Field(
        default=512, gt=0, description="attributes per record. A record with more is quarantined"
    )
    transcript_texts: bool = Field(
        default=False,
        description="store prompts, replies, parameters, results and folders of transcripts, too: "
        "of lines read after it is set",
    )
    keep_unknown_events: bool = Field(
        default=False,
        description="store records that no dialect recognizes, as `other`",
    )
    test_commands: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="further commands that run tests, separated by commas, such as "
        "`tools/verify,just spec*`, for dates built after the change",
    )
    git_repositories: Annotated[tuple[LocalPath, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="local clones or mirrors, separated by commas: asked every night which "
        "commits of sessions were merged, were reverted, and live on",
    )
    session_attributes: Annotated[
        tuple[str, ...], BeforeValidator(split_names), AfterValidator(checked_attributes)
    ] = Field(
        default=(),
        description="names of attributes, separated by commas, that become columns of sessions "
        "read after the change",
    )
    prices_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "prices.yaml",
        description="your own model prices, see docs/telemetry.md, for telemetry read after the "
        "change",
    )
    quarantine_max_share: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="share of quarantined lines above which the check of an ingest fails",
    )
    shards: int = Field(
        default=1,
        ge=1,
        le=256,
        description="parts in which each date is built, one after the other, to save memory: 4 "
        "to 16 for dates of 100,000 sessions",
    )
    compact_parts: int = Field(
        default=24, ge=2, description="number of landed parts of a date from which they are merged"
    )
    lock_timeout_seconds: int = Field(
        default=600,
        gt=0,
        description="seconds to wait for another process with the same lock",
    )


PeopleView: TypeAlias = Literal["off", "team", "person"]
"""What reports show of people: nothing, teams, or single people."""


class PeopleSettings(SettingsSection):
    """File of the identities, and how much of people reports show."""

    identities_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "identities.yaml",
        description="which ids belong to which person, see docs/people.md",
    )
    forgotten_key_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "forgotten.key",
        description="key of the hashes of erased ids, made by `forget`",
    )
    pseudonymize: bool = Field(
        default=False,
        description="store keyed hashes in place of emails, user ids, host users and host names, "
        "for telemetry read after the change",
    )
    pseudonym_key_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "pseudonyms.key",
        description="key of the pseudonyms, made if it is missing",
    )
    people_view: PeopleView = Field(
        default="team",
        description="what reports, lists and the analysts' database show of people: nothing "
        "(`off`), `team`, or `person`, in the service only to reviewer and operator "
        "keys",
    )


class ExpirySettings(SettingsSection):
    """Days after which data are deleted; by session date, or by the day on which they were read."""

    keep_texts_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which prompts, replies, parameters, results and analyses are "
        "deleted",
    )
    keep_events_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which events are deleted, with their text. Their dates are not "
        "built again",
    )
    keep_sessions_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which everything of a session date is deleted",
    )
    keep_quarantine_days: int | None = Field(
        default=None,
        gt=0,
        description="days after which lines in quarantine are deleted",
    )
    keep_landing_days: int | None = Field(
        default=None,
        gt=0,
        description="days after their last change after which fully read landing files are deleted",
    )
