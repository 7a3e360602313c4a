"""Settings of the service, alerts, outgoing evaluations, the night and reputation."""

import binascii
from base64 import b64decode
from ipaddress import ip_network
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    SecretStr,
)

from evaluation_pipelines.settings.data import (
    LocalPath,
    SettingsSection,
    decoded,
    split_names,
)


def _networks(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        ip_network(text)
    return texts


def _page_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must start with http:// or https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("must hold neither password nor parameters")
    return url.rstrip("/")


_PageUrl: TypeAlias = Annotated[str, AfterValidator(_page_url)]
_MIB = 1024 * 1024
_LEAST_SECRET = 16


class ServiceSettings(SettingsSection):
    """Names and URLs of the service, proxies in front of it, and limits of what it receives."""

    service_hosts: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="host names, separated by commas, of the service. Requests for another name "
        "(except `localhost` and IP addresses) are rejected",
    )
    service_url: _PageUrl | None = Field(
        default=None,
        description="URL of the pages, to which Dagster's interface links",
    )
    dagster_url: _PageUrl | None = Field(
        default=None,
        description="URL of Dagster's interface, to which the pages link",
    )
    trusted_proxies: Annotated[
        tuple[str, ...], BeforeValidator(split_names), AfterValidator(_networks)
    ] = Field(
        default=(),
        description="IP addresses or networks, separated by commas, of proxies whose "
        "`X-Forwarded-For`, `X-Forwarded-User` and `X-Forwarded-Groups` are believed",
    )
    forwarded_groups: Annotated[tuple[str, ...], BeforeValidator(split_names)] = Field(
        default=(),
        description="rights of people named by a proxy, by group: `GROUP=ROLE` or "
        "`GROUP=ROLE@ORGANIZATION`, separated by commas. See docs/service.md",
    )
    service_requests_per_second: float = Field(
        default=500,
        gt=0,
        allow_inf_nan=False,
        description="requests per second for each key, and each address of another machine",
    )
    receive_max_body_bytes: ByteSize = Field(
        default=ByteSize(16 * _MIB),
        gt=0,
        le=16 * _MIB,
        description="maximum size of an OTLP request, also decompressed",
    )
    receive_max_pending_bytes: ByteSize = Field(
        default=ByteSize(256 * _MIB),
        ge=64 * _MIB,
        description="memory for requests being received. Each key (or address, without keys) may "
        "use a quarter of it",
    )
    mcp_key: SecretStr | None = Field(
        default=None,
        description="key (`keys create`) whose rights `evaluation-pipelines mcp` has. Needed once "
        "there are keys",
        repr=False,
    )
    service_scoring: Literal["service", "dagster"] = Field(
        default="service",
        description="who scores requests over HTTP: `service`, at once, or `dagster`, within a "
        "minute",
    )


def _webhook(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    if not text.startswith(("http://", "https://")):
        message = "must start with http:// or https://"
        raise ValueError(message)
    if not text.isascii() or not text.isprintable() or " " in text:
        message = "must have no blanks, line ends or letters outside ASCII"
        raise ValueError(message)
    return url


_WebhookUrl: TypeAlias = Annotated[SecretStr, AfterValidator(_webhook)]


def _signing_secret(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    encoded = text.removeprefix("whsec_")
    if len(text) < _LEAST_SECRET:
        raise ValueError(f"must have at least {_LEAST_SECRET} characters")
    if encoded != text:
        try:
            b64decode(encoded, validate=True)
        except binascii.Error:
            raise ValueError("must be base64 after whsec_") from None
    return secret


class AlertSettings(SettingsSection):
    """Where alerts are sent, how long a source may be silent, and what may be spent."""

    alert_webhook_url: _WebhookUrl | None = Field(
        default=None,
        description='URL to which alerts are posted as JSON `{"text": ...}`, such as a Slack '
        "webhook",
        repr=False,
    )
    alert_cost_per_day_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="cost of a day's requests (UTC) over which an alert is raised for an "
        "organization, team or person",
    )
    alert_cost_per_month_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="the same for a month. The alert is raised at 80% of it",
    )
    stale_telemetry_hours: float = Field(
        default=96,
        gt=0,
        allow_inf_nan=False,
        description="hours without a new event from an agent program after which an alert is "
        "raised",
    )


class Webhook(BaseModel):
    """An address that gets evaluations, and the secret that they are signed with."""

    model_config = ConfigDict(extra="forbid")

    url: _WebhookUrl
    secret: Annotated[SecretStr, AfterValidator(_signing_secret)]
    organization: str | None = None


class ExportSettings(SettingsSection):
    """Where evaluations are sent."""

    export_otlp_endpoint: _PageUrl | None = Field(
        default=None,
        description="URL of an OTLP/HTTP endpoint that gets evaluations, such as "
        "`http://collector:4318`",
    )
    export_otlp_headers: SecretStr | None = Field(
        default=None,
        description="headers for it: `name=value`, separated by commas, values percent-encoded",
        repr=False,
    )
    export_format: Literal["events", "openinference"] = Field(
        default="events",
        description="content sent to it: `events` (log records `gen_ai.evaluation.result`) or "
        "`openinference` (spans with `session.evaluations`)",
    )
    export_files_dir: LocalPath | None = Field(
        default=None,
        description="folder in which evaluations are written as OTLP in JSON, for a collector",
    )
    export_texts: bool = Field(
        default=False,
        description="send the explanations of judges and people along with scores",
    )
    webhooks: Annotated[dict[str, Webhook], BeforeValidator(decoded)] = Field(
        default_factory=dict,
        description="webhooks that get evaluations: JSON object, name -> "
        '`{"url": ..., "secret": ..., "organization": ...}` (the last is optional)',
        repr=False,
    )


def _time_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be a name such as Europe/Vienna or UTC") from None
    return name


class NightSettings(SettingsSection):
    """When the nightly evaluation starts."""

    nightly_hour: int = Field(
        default=2,
        ge=0,
        le=23,
        description="hour of the nightly evaluation",
    )
    nightly_time_zone: Annotated[str, AfterValidator(_time_zone)] = Field(
        default="UTC", description="time zone of that hour"
    )


_SCHEMES = ("chdb:///", "clickhouse://", "clickhouses://")

_Delta = Annotated[float, Field(ge=-1, le=1)]


def _dsn(dsn: SecretStr | None) -> SecretStr | None:
    if dsn is not None and not dsn.get_secret_value().startswith(_SCHEMES):
        raise ValueError(f"must start with {', '.join(_SCHEMES)}")
    return dsn


class ReputationSettings(SettingsSection):
    """ClickHouse and the signals of other systems."""

    clickhouse_dsn: Annotated[SecretStr | None, AfterValidator(_dsn)] = Field(
        default=None,
        description="reputation: `chdb:///folder` (embedded), "
        "`clickhouse://user:password@host:8123/database` or `clickhouses://` (TLS), "
        "default: the folder `clickhouse` in the data folder",
        repr=False,
    )
    clickhouse_patience_s: float = Field(
        default=60.0,
        ge=0,
        description="seconds to wait for ClickHouse while it is down or in use",
    )
    signal_deltas: Annotated[dict[str, _Delta], BeforeValidator(decoded)] = Field(
        default_factory=dict,
        description="reputation: JSON object, event type of an external signal -> its "
        "`score_delta` (-1 to 1), see docs/reputation.md",
    )
    outcome_signals: bool = Field(
        default=False,
        description="reputation: outcomes of sessions are signals, too, see docs/reputation.md",
    )
