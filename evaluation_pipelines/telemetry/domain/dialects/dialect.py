"""What a dialect is: how one agent program words its telemetry."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evaluation_pipelines.telemetry.domain.attributes import Convert

Row = dict[str, Any]
"""Values of ``agent_events`` by column name; a column that is absent is null."""


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """How to recognise one agent program's log records and read their columns.

    Attributes:
        source_cli: Value of the column ``source_cli``.
        name_prefix: Vendor prefix of event names, with its dot; it is stripped.
        scopes: Prefixes of instrumentation scope names that are this program's own.
        event_names: Source name without prefix -> canonical name; any other becomes ``other``.
        columns: Attribute -> column and conversion, for what this program says in its own way.
            Attributes that every program shares (session, user, masque ...) are read already.
        refine: Finishes the row of an event, given the attributes that no column took (what it
            removes from them is not stored again) and, as "body", a body that is no text. It
            returns False for a record that repeats another one: each call counts once.
        refined: The events, by source name without prefix, that ``refine`` is for; None for all.
        sends_cost: Whether API requests come with their cost; where not, the price table tells it.
        reasoning_is_output: Whether output tokens count reasoning tokens in. Where not, these are
            billed on top of them.
    """

    source_cli: str
    name_prefix: str
    scopes: tuple[str, ...]
    event_names: Mapping[str, str]
    columns: Mapping[str, tuple[str, Convert]]
    refine: Callable[[Row, dict[str, Any]], bool]
    refined: frozenset[str] | None = None
    sends_cost: bool = True
    reasoning_is_output: bool = True

    def recognises(self, scope: str, name: str, body: str) -> bool:
        """Whether a record of this scope, (unstripped) name and body was written by this program.

        Not by ``service.name``: people set that to what they like.
        """
        return (
            name.startswith(self.name_prefix)
            or body.startswith(self.name_prefix)
            or (bool(self.scopes) and scope.startswith(self.scopes))
        )


def leave_out_cached(row: Row) -> None:
    """Take the cached tokens out of ``input_tokens``, for a source that counts them in.

    Sources send no count of cached tokens where no cache was involved: it is 0 then. Input is
    unknown when a count is broken, or when more was cached than went in.
    """
    read = row.setdefault("cache_read_tokens", 0)
    created = row.setdefault("cache_creation_tokens", 0)
    everything = row.get("input_tokens")
    row["input_tokens"] = None
    if None not in (everything, read, created) and everything >= read + created:
        row["input_tokens"] = everything - read - created
