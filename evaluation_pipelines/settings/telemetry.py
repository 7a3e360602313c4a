"""Settings of ingest and session windows."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field
from pydantic_settings import BaseSettings, NoDecode

from evaluation_pipelines.settings.folder import LocalPath
from evaluation_pipelines.settings.session_attributes import checked_attributes, split_names

_MIB = 1024 * 1024


class TelemetrySettings(BaseSettings):
    """Limits of ingest, and when a session counts as ended."""

    session_idle_minutes: int = Field(
        default=30, gt=0, description="minutes of silence after which a session counts as ended"
    )
    productivity_time: Literal["active", "window"] = Field(
        default="active",
        description="minutes by which productivity divides: `active` ones, or those of the whole "
        "`window` from don to doff; dates that are built keep their scores until they are rebuilt",
    )
    max_line_bytes: ByteSize = Field(
        default=ByteSize(64 * _MIB),
        gt=0,
        description="maximum length of a line; a longer one goes to quarantine",
    )
    batch_bytes: ByteSize = Field(
        default=ByteSize(8 * _MIB), gt=0, description="telemetry per committed batch"
    )
    ingest_processes: int | None = Field(
        default=None,
        ge=1,
        description="processes that decode a large file; one per core, at most 4, unless set",
    )
    parallel_from_bytes: ByteSize = Field(
        default=ByteSize(48 * _MIB),
        gt=0,
        description="unread bytes of a file from which several processes decode it",
    )
    max_decompression_ratio: int = Field(
        default=500,
        gt=0,
        description="maximum decompressed size of a compressed file as a multiple of its size; the "
        "rest goes to quarantine",
    )
    max_attributes: int = Field(
        default=512, gt=0, description="attributes per record; a record with more is quarantined"
    )
    keep_unknown_events: bool = Field(
        default=False,
        description="store records that no dialect recognizes as `other`, not only count them",
    )
    session_attributes: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(split_names), AfterValidator(checked_attributes)
    ] = Field(
        default=(),
        description="names of attributes, separated by commas, that become columns of sessions; "
        "they count for telemetry that is read from then on",
    )
    prices_path: LocalPath = Field(
        default_factory=lambda known: known["data_dir"] / "prices.yaml",
        description="file with your own prices of models, see docs/telemetry.md; `prices.yaml` in "
        "the data folder unless set; counts for telemetry that is read from then on",
    )
    future_tolerance_minutes: int = Field(
        default=5,
        ge=0,
        description="how far in the future an event may be before its time counts as impossible",
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
        description="parts in which each date is built, one after the other; more take less memory "
        "and more time: 4 to 16 suit dates of 100 000 sessions",
    )
    compact_parts: int = Field(
        default=24, ge=2, description="number of landed parts of a date from which they are merged"
    )
    lock_timeout_seconds: int = Field(
        default=600,
        gt=0,
        description="seconds to wait for another process that ingests, builds the same date, "
        "publishes, forgets something or changes reputation",
    )
