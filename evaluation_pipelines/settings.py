"""Every setting: an environment variable or a line of ``.env`` with the prefix ``EVAL_``.

``python -m evaluation_pipelines.settings`` prints the table of the README. Settings are read at the
edge (terminal, Dagster) and handed on as values; adapters and domain know nothing of them.
"""

import sys
from datetime import date
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, ByteSize, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

_PREFIX = "EVAL_"
_MIB = 1024 * 1024
_LEDGER_SCHEMES = ("sqlite", "postgresql")


class SettingsError(ValueError):
    """A setting cannot be used; the message names the variable, the fault and what is allowed."""


def _ledger_url(url: str) -> str:
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.partition("+")[0] not in _LEDGER_SCHEMES:
        message = "must begin with sqlite:/// or postgresql+<driver>://"
        raise ValueError(message)
    return url


def _webhook(url: SecretStr) -> SecretStr:
    if not url.get_secret_value().startswith(("http://", "https://")):
        message = "must begin with http:// or https://"
        raise ValueError(message)
    return url


# "~" in .env is not expanded by a shell, and would become a folder of that name.
_Path = Annotated[Path, AfterValidator(Path.expanduser)]


class Settings(BaseSettings):
    """All settings of one run, read once.

    Raises pydantic's ValidationError; programs call ``load_settings`` for a readable message.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    data_dir: _Path = Field(
        default=Path("data"),
        description="folder of everything the project keeps; relative to the working directory",
    )
    landing_dir: _Path = Field(
        default_factory=lambda known: known["data_dir"] / "landing",
        description="folder that collectors write telemetry to; only ever read; `landing` in the "
        "data folder unless set",
    )
    lake_dir: _Path = Field(
        default_factory=lambda known: known["data_dir"] / "lake",
        description="folder of the Parquet tables; `lake` in the data folder unless set",
    )
    ledger_url: Annotated[str, AfterValidator(_ledger_url)] = Field(
        default_factory=lambda known: f"sqlite:///{known['data_dir'] / 'ledger.db'}",
        description="database of positions, session index and scores, as `sqlite:///<path>` or "
        "`postgresql+<driver>://...`; `ledger.db` in the data folder unless set",
        repr=False,
    )
    analytics_path: _Path = Field(
        default_factory=lambda known: known["data_dir"] / "analytics.duckdb",
        description="link to the analysts' database; `analytics.duckdb` in the data folder unless "
        "set",
    )
    start_date: date = Field(
        default=date(2025, 1, 1),
        ge=date(2020, 1, 1),
        description="first day (UTC) of the partitions; older sessions are filed under it",
    )
    session_idle_minutes: int = Field(
        default=30, gt=0, description="minutes of silence after which a session counts as ended"
    )
    max_line_bytes: ByteSize = Field(
        default=ByteSize(64 * _MIB),
        gt=0,
        description="longest line that is read; a longer one goes to quarantine",
    )
    batch_bytes: ByteSize = Field(
        default=ByteSize(16 * _MIB), gt=0, description="telemetry that is committed at a time"
    )
    max_decompression_ratio: int = Field(
        default=500,
        gt=0,
        description="how many times its size a compressed file may decompress to; the rest of one "
        "that exceeds it goes to quarantine",
    )
    max_attributes: int = Field(
        default=512, gt=0, description="attributes per record; a record with more is quarantined"
    )
    keep_unknown_events: bool = Field(
        default=False,
        description="store records that no dialect recognises as `other`, not only count them",
    )
    future_tolerance_minutes: int = Field(
        default=5,
        ge=0,
        description="how far an event may lie in the future before its time counts as impossible",
    )
    quarantine_max_share: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="share of quarantined lines above which the check of an ingest fails",
    )
    compact_parts: int = Field(
        default=24, ge=2, description="landed parts of a date before they are merged into one"
    )
    lease_seconds: int = Field(
        default=600, gt=0, description="how long an ingest may hold a file without a sign of life"
    )
    alert_webhook_url: Annotated[SecretStr, AfterValidator(_webhook)] | None = Field(
        default=None,
        description='where alerts are posted as JSON `{"text": ...}`, such as a Slack webhook; '
        "without it they are only logged",
        repr=False,
    )


class SettingRow(NamedTuple):
    """One line of the settings table."""

    variable: str
    default: str
    description: str


def load_settings() -> Settings:
    """The settings of this process.

    Raises:
        SettingsError: with one line per variable that cannot be used.
    """
    try:
        return Settings()
    except ValidationError as error:
        faults = [_fault(detail) for detail in error.errors() if _has_own_fault(detail)]
        message = "These settings cannot be used:\n" + "\n".join(faults)
        # The cause would print the values again, and a ledger URL may hold a password.
        raise SettingsError(message) from None


def _has_own_fault(detail: ErrorDetails) -> bool:
    # A default that derives from a faulty setting is reported as faulty too.
    return detail["type"] != "default_factory_not_called"


def _fault(detail: ErrorDetails) -> str:
    name = str(detail["loc"][0])
    field = Settings.model_fields[name]
    given = f"={detail['input']!r}" if field.repr else ""
    reason = detail["msg"].removeprefix("Value error, ")
    return f"  {_PREFIX}{name.upper()}{given}: {reason}. Meaning: {field.description}."


def settings_table() -> list[SettingRow]:
    """Variable, default and description of every setting, in the order they are declared."""
    defaults = {"data_dir": Settings.model_fields["data_dir"].default}
    return [
        SettingRow(
            variable=_PREFIX + name.upper(),
            default=_shown(field.get_default(call_default_factory=True, validated_data=defaults)),
            description=field.description or "",
        )
        for name, field in Settings.model_fields.items()
    ]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, ByteSize):
        return value.human_readable().replace(".0", "")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _code(default: str) -> str:
    return f"`{default}`" if default else "none"


def settings_markdown() -> str:
    """The settings table as Markdown."""
    rows = [
        f"| `{row.variable}` | {_code(row.default)} | {row.description} |"
        for row in settings_table()
    ]
    return "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])


if __name__ == "__main__":
    sys.stdout.write(f"{settings_markdown()}\n")
