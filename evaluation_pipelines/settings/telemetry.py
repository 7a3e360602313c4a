"""Settings: how telemetry is read."""

from pydantic import ByteSize, Field
from pydantic_settings import BaseSettings

_MIB = 1024 * 1024


class TelemetrySettings(BaseSettings):
    """Limits and habits of ingest and of the daily tables."""

    session_idle_minutes: int = Field(
        default=30, gt=0, description="minutes of silence after which a session counts as ended"
    )
    max_line_bytes: ByteSize = Field(
        default=ByteSize(64 * _MIB),
        gt=0,
        description="longest line that is read; a longer one goes to quarantine",
    )
    batch_bytes: ByteSize = Field(
        default=ByteSize(8 * _MIB), gt=0, description="telemetry that is committed at a time"
    )
    ingest_processes: int | None = Field(
        default=None,
        ge=1,
        description="processes that decode a large file together; one a core, at most 4, unless "
        "set",
    )
    parallel_from_bytes: ByteSize = Field(
        default=ByteSize(48 * _MIB),
        gt=0,
        description="unread bytes of a file from which on more than one process decodes it",
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
