"""Settings of what runs by itself: the service, alerts, the night, reputation."""

from ipaddress import ip_network
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode

from evaluation_pipelines.settings.data import split_names


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        ip_network(text)
    return texts


def _page_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must begin with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("must hold neither password nor parameters")
    return url.rstrip("/")


_PageUrl: TypeAlias = Annotated[str, AfterValidator(_page_url)]
_MIB = 1024 * 1024


class ServiceSettings(BaseSettings):
    """Names and URLs of the service, proxies in front of it, and limits of what it receives."""

    service_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_names)] = Field(
        default=(),
        description="host names, separated by commas, under which the service is reached; requests "
        "for another name than these, `localhost` or an IP address are refused",
    )
    service_url: _PageUrl | None = Field(
        default=None,
        description="URL under which people reach the pages of the service, such as "
        "`http://127.0.0.1:8400`; Dagster's interface links to the page of each day",
    )
    dagster_url: _PageUrl | None = Field(
        default=None,
        description="URL under which people reach Dagster's interface, such as "
        "`http://127.0.0.1:3000`; the pages of a session and of a day link to the run that built "
        "them",
    )
    trusted_proxies: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(split_names), AfterValidator(_networks)
    ] = Field(
        default=(),
        description="IP addresses or networks, separated by commas, of proxies whose "
        "`X-Forwarded-For`, `X-Forwarded-User` and `X-Forwarded-Groups` are believed",
    )
    forwarded_groups: Annotated[tuple[str, ...], NoDecode, BeforeValidator(split_names)] = Field(
        default=(),
        description="what people whom a proxy names may do, by group: `GROUP=ROLE` or "
        "`GROUP=ROLE@ORGANIZATION`, separated by commas; the first one of a person counts, and "
        "those without any are refused; empty: they may do what the proxy's key may",
    )
    service_requests_per_second: float = Field(
        default=500,
        gt=0,
        allow_inf_nan=False,
        description="requests per second that each key, and each address of another machine, may "
        "send; more are answered by 429",
    )
    receive_max_body_bytes: ByteSize = Field(
        default=ByteSize(16 * _MIB),
        gt=0,
        le=16 * _MIB,
        description="maximum size of an OTLP request, also when it is decompressed; a larger one "
        "is refused",
    )
    receive_max_pending_bytes: ByteSize = Field(
        default=ByteSize(256 * _MIB),
        ge=64 * _MIB,
        description="memory for requests that are received at the same time; each key (or address, "
        "without keys) may use a quarter of it; more are refused and sent again by the client",
    )
    receive_body_seconds: float = Field(
        default=30,
        gt=0,
        allow_inf_nan=False,
        description="seconds within which a request must have arrived",
    )
    receive_file_bytes: ByteSize = Field(
        default=ByteSize(64 * _MIB),
        gt=0,
        description="size from which a file of received telemetry is followed by a new one; a new "
        "one is also begun each hour",
    )
    service_scoring: Literal["service", "dagster"] = Field(
        default="service",
        description="who scores what is requested over HTTP: `service`, which begins at once, or "
        "`dagster`, whose sensor starts a run within a minute",
    )


def _webhook(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    if not text.startswith(("http://", "https://")):
        message = "must begin with http:// or https://"
        raise ValueError(message)
    if not text.isascii() or not text.isprintable() or " " in text:
        message = "must have no blanks, line ends or letters outside ASCII"
        raise ValueError(message)
    return url


class AlertSettings(BaseSettings):
    """Where alerts are sent, how long a source may be silent, and what may be spent."""

    alert_webhook_url: Annotated[SecretStr, AfterValidator(_webhook)] | None = Field(
        default=None,
        description='URL to which alerts are posted as JSON `{"text": ...}`, such as a Slack '
        "webhook; without it alerts are only logged",
        repr=False,
    )
    alert_cost_per_day_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="cost of the requests of a day (UTC) in USD; an alert is raised for each "
        "organization, team or person over it; people as `EVAL_PEOPLE_VIEW` allows",
    )
    alert_cost_per_month_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="the same of a month (UTC); the alert is raised at 80% of it",
    )
    stale_telemetry_hours: float = Field(
        default=96,
        gt=0,
        allow_inf_nan=False,
        description="hours without a new event of an agent program after which an alert is raised; "
        "a long weekend has about 90",
    )


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be a name such as Europe/Vienna or UTC") from None
    return name


class NightSettings(BaseSettings):
    """When the nightly evaluation starts."""

    nightly_hour: int = Field(
        default=2,
        ge=0,
        le=23,
        description="hour of the nightly evaluation: judge everything that is due, then build "
        "everything that follows from it",
    )
    nightly_time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(
        default="UTC", description="time zone of that hour"
    )


_SCHEMES = ("chdb:///", "clickhouse://", "clickhouses://")

_Delta = Annotated[float, Field(ge=-1, le=1)]


def _dsn(dsn: SecretStr | None) -> SecretStr | None:
    if dsn is not None and not dsn.get_secret_value().startswith(_SCHEMES):
        raise ValueError(f"must begin with {', '.join(_SCHEMES)}")
    return dsn


class ReputationSettings(BaseSettings):
    """ClickHouse and the signals of other systems."""

    clickhouse_dsn: Annotated[SecretStr | None, AfterValidator(_dsn)] = Field(
        default=None,
        description="reputation: `chdb:///folder` (embedded ClickHouse), "
        "`clickhouse://user:password@host:8123/database` (a server) or the same with "
        "`clickhouses://` (TLS); the folder `clickhouse` in the data folder unless set",
        repr=False,
    )
    clickhouse_patience_s: float = Field(
        default=60.0,
        ge=0,
        description="seconds to wait for ClickHouse while it is down or in use",
    )
    signal_deltas: dict[str, _Delta] = Field(
        default_factory=dict,
        description="reputation: JSON object, event type of an outside signal -> its "
        "`score_delta` (-1 to 1) where the signal gives none; adds to the table in "
        "docs/reputation.md",
    )
