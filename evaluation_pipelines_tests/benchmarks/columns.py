"""The columns of an event that every peer produces, as the ingest does, and how they are compared.

In addition, each writes event_time, observed_time, session_date, service_name, service_version,
source_event_name and, as JSON text, the attributes that have no column: 34 in all. The ingest
writes eleven more (hashed event_id, tool class, exit code, origin ...) and the ledger.
"""

from typing import NamedTuple


class Column(NamedTuple):
    """A column and the attributes that fill it; the first that is there counts."""

    name: str
    kind: str
    attributes: tuple[str, ...]


COLUMNS = (
    Column("session_id", "text", ("session.id",)),
    Column("organization_id", "text", ("organization.id",)),
    Column("agent_id", "text", ("agent.id",)),
    Column("masque", "text", ("masque.name",)),
    Column("user_id", "text", ("user.id",)),
    Column("team_id", "text", ("team.id",)),
    Column("classification_label", "text", ("classification.label",)),
    Column("sequence", "count", ("event.sequence",)),
    Column("prompt_id", "text", ("prompt.id",)),
    Column("request_id", "text", ("request_id",)),
    Column("tool_use_id", "text", ("tool_use_id",)),
    Column("query_source", "text", ("query_source",)),
    Column("model", "text", ("model",)),
    Column("tool_name", "text", ("tool_name",)),
    Column("success", "flag", ("success",)),
    Column("decision", "text", ("decision", "decision_type")),
    Column("error_type", "text", ("error_type",)),
    Column("error", "text", ("error",)),
    Column("duration_ms", "amount", ("duration_ms", "total_duration_ms")),
    Column("ttft_ms", "amount", ("ttft_ms",)),
    Column("cost_usd", "amount", ("cost_usd",)),
    Column("input_tokens", "count", ("input_tokens",)),
    Column("output_tokens", "count", ("output_tokens",)),
    Column("cache_read_tokens", "count", ("cache_read_tokens",)),
    Column("cache_creation_tokens", "count", ("cache_creation_tokens",)),
    Column("content", "text", ("prompt", "response", "body")),
    Column("tool_parameters", "text", ("tool_input", "tool_parameters")),
)

ATTRIBUTES_WITH_COLUMN = (
    *(attribute for column in COLUMNS for attribute in column.attributes),
    "event.name",
    "event.timestamp",
)

OF_RESOURCE_TOO = ("organization_id", "masque", "team_id", "classification_label")
"""Columns whose attribute may stand in the resource only."""


def quoted_list(names: tuple[str, ...]) -> str:
    """Names as SQL literals, parted by commas."""
    return ", ".join(f"'{name}'" for name in names)


TOTALS = """
select
    count(*)::bigint as events,
    count(distinct session_id)::bigint as sessions,
    (sum(epoch_us(event_time)) / 1000)::bigint as event_times,
    sum(input_tokens)::bigint as input_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(cache_read_tokens)::bigint as cache_read_tokens,
    round(sum(cost_usd), 4) as cost_usd,
    count(masque)::bigint as masques,
    count(tool_name)::bigint as tool_names,
    count(decision)::bigint as decisions,
    round(sum(duration_ms), 1) as duration_ms
from read_parquet(?, union_by_name = true, hive_partitioning = false)
"""
"""What two programs must agree on, of everything that they wrote."""


def totals(pattern: str) -> dict[str, float]:
    """The totals of Parquet files, read by DuckDB."""
    import duckdb

    rows = duckdb.execute(TOTALS, [pattern])
    names = [column[0] for column in rows.description]
    row = rows.fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))
