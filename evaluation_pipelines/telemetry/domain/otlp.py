"""OTLP log requests as JSON, as types: ``decode.py`` reads lines into them.

Both encodings are read: that of the SDKs (integers as numbers) and that of the collector (64-bit
integers as strings, empty fields omitted).
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from evaluation_pipelines.telemetry.domain.attributes import KeyValue


class LogRecord(msgspec.Struct, gc=False, rename="camel"):
    """One log record. Times are nanoseconds as sent: a number, a decimal string, or absent.

    ``body`` is an AnyValue as a dictionary, or whatever was sent instead.
    """

    attributes: list[KeyValue] | None = None
    body: Any = None
    time_unix_nano: Any = None
    observed_time_unix_nano: Any = None
    event_name: Any = None


class Scope(msgspec.Struct, gc=False):
    """Instrumentation scope: the library that wrote the records."""

    name: str | None = None
    version: str | None = None


class ScopeLogs(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Records of one scope. Records under another name must not be overlooked."""

    log_records: list[LogRecord] | None = None
    scope: Scope | None = None
    schema_url: Any = None


class Resource(msgspec.Struct, gc=False):
    """Resource: attributes of the process."""

    attributes: list[KeyValue] | None = None


class ResourceLogs(msgspec.Struct, gc=False, rename="camel", forbid_unknown_fields=True):
    """Scopes of one resource.

    ``first_record`` is the index of its first record in the line if records before it are missing
    because they were broken.
    """

    scope_logs: list[ScopeLogs] | None = None
    resource: Resource | None = None
    schema_url: Any = None
    first_record: int | None = msgspec.field(default=None, name="(place)")  # never sent


class Line(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """One line of a landing file: an OTLP request of any signal, or an attribution line.

    ``sdk_time`` is the time of a record that the SDK wrote by itself. ``other_names`` are the names
    of an object that has none of the fields' names for them.
    """

    resource_logs: list[ResourceLogs] | None = msgspec.field(default=None, name="resourceLogs")
    resource_metrics: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="resourceMetrics"
    )
    resource_spans: msgspec.Raw | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="resourceSpans"
    )
    session_id: Any = None
    masque: Any = None
    donned_at: Any = None
    doffed_at: Any = None
    sdk_time: str | None = msgspec.field(default=None, name="(sdk time)")  # never sent
    other_names: tuple[str, ...] = msgspec.field(default=(), name="(other)")  # never sent

    @property
    def other_signals(self) -> int:
        """Number of keys of metrics and traces in the line."""
        signals = (self.resource_metrics, self.resource_spans)
        return sum(signal is not msgspec.UNSET for signal in signals)


@dataclass(frozen=True, slots=True)
class Defect:
    """Why a line, or one record of it (``record_index``), could not be read."""

    reason: str
    record_index: int | None = None
