"""Base of the dialects: rules to read the telemetry of one agent program."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import Convert
from evaluation_pipelines.telemetry.domain.otlp import LogRecord

Row = dict[str, Any]
"""Values of ``agent_events`` by column name; an absent column is null."""

EVALUATION, EVALUATED_TRACE, EVALUATED_SPAN = (
    "gen_ai.evaluation.name",
    "evaluated.trace_id",
    "evaluated.span_id",
)
"""Attribute of every evaluation, and attributes added to it and to records that follow traces."""


def names(text: str) -> frozenset[str]:
    """Return the whitespace-separated names in a text."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """Rules to recognize the log records of one agent program and read their columns.

    Attributes:
        source_cli: Value of the column ``source_cli``.
        name_prefix: Vendor prefix of event names, with its dot; it is removed.
        scopes: Prefixes of the instrumentation scope names of this program.
        event_names: Source name without prefix -> canonical name; any other becomes ``other``.
        columns: Attribute -> column and conversion for attributes of this program. Attributes that
            all programs share (session, user, masque ...) are in ``SHARED_COLUMNS``.
        refine: Completes the row of an event, given the attributes without a column (attributes it
            removes are not stored again) and, as "body", a body that is no text. Returns False
            for a record that repeats another one: each call counts once.
        refined: Source names without prefix of the events that ``refine`` is for; None for all.
        uses: Columns that ``refine`` reads or sets; None for all. Its rows have no others.
        ran_by: Attributes (the first one sent applies) that describe how a model ran: ``effort``,
            ``service_tier``, ``speed``, and ``cache_write_1h``, the tokens written to the cache
            for an hour.
        sends_cost: True if API requests have their cost; otherwise the price table is used.
        sends_time: True if records have a time; otherwise they only have the attribute
            ``event.timestamp`` and an observed time.
        never_sends: Session metrics (columns of ``agent_sessions``) that this program, or some of
            its versions, never reports: they are null instead of 0.
        has_body_objects: True if bodies are key-value lists; some collectors write them as JSON.
        told_by: Attribute whose record counts as several records, and the function that expands
            it into them.
        identified_by: Attributes that, with session, name and time, identify a record without its
            own id; None for those in ``columns``. Never change them: otherwise a record that is
            resent would become a second event, unlike the stored one. Attributes that a
            pipeline adds are not included.
        sends_exit_codes: True if shell commands that exit with an error are reported as failed.
        follows_traces: True if records name no session but the resource: spans of their trace may.
        has_warm_ups: True if it sends requests only to warm up a model's cache.
    """

    source_cli: str
    name_prefix: str
    scopes: tuple[str, ...]
    event_names: Mapping[str, str]
    columns: Mapping[str, tuple[str, Convert]]
    refine: Callable[[Row, dict[str, Any]], bool]
    refined: frozenset[str] | None = None
    uses: frozenset[str] | None = None
    ran_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sends_cost: bool = True
    sends_time: bool = True
    never_sends: frozenset[str] = frozenset()
    has_body_objects: bool = False
    told_by: tuple[str, Callable[[LogRecord], list[LogRecord]]] | None = None
    identified_by: frozenset[str] | None = None
    sends_exit_codes: bool = True
    follows_traces: bool = False
    has_warm_ups: bool = False

    @property
    def identifying(self) -> frozenset[str]:
        """Attributes that distinguish records with the same session, name and time."""
        return frozenset(self.columns) if self.identified_by is None else self.identified_by

    def recognizes(self, scope: str, name: str, body: str) -> bool:
        """Return True if this program wrote a record with this scope, name and body.

        ``service.name`` does not count: users set it to anything.
        """
        return (
            name.startswith(self.name_prefix)
            or body.startswith(self.name_prefix)
            or (bool(self.scopes) and scope.startswith(self.scopes))
        )


def leave_out_cached(row: Row, *, unsent: int | None = 0) -> None:
    """Subtract the cached tokens from ``input_tokens``, for a source that includes them.

    Most sources send no count of cached tokens if no cache was involved: it is 0 then. Others never
    send one: ``unsent`` is None, and input keeps all tokens if no count is known. Input is unknown
    if one count is broken, or if more was cached than sent; without input so is the rest.
    """
    if row.setdefault("input_tokens", None) is None:
        return
    read = row.setdefault("cache_read_tokens", unsent)
    created = row.setdefault("cache_creation_tokens", unsent)
    if read is None and created is None:
        return
    everything, row["input_tokens"] = row["input_tokens"], None
    if read is not None and created is not None and everything >= read + created:
        row["input_tokens"] = everything - read - created
