"""The way of the source design: the whole file into tables of DuckDB, then a query."""

import duckdb

from evaluation_pipelines_tests.benchmarks.peer_duckdb import KINDS

_LOAD = """
create table requests as
select *
from read_json_auto(?, format = 'newline_delimited', maximum_object_size = 67108864)
"""

_EVENTS = """
create table events as
with resource_logs as (select unnest("resourceLogs") as logs from requests),
scope_logs as (select unnest(logs."scopeLogs") as logs from resource_logs),
records as (select unnest(logs."logRecords") as record from scope_logs)
select
    record."timeUnixNano"::bigint as time_ns,
    record.body."stringValue" as name,
    map_from_entries(
        list_transform(record.attributes, lambda a: row(a."key", coalesce({values})))
    ) as attributes
from records
"""

_NEWEST = """
with told as (
    -- A record that was sent again counts once.
    select distinct time_ns, name, attributes['session.id'] as session_id, attributes from events
),
newest as (
    select session_id from told group by all order by min(time_ns) desc, session_id desc limit 1
)
select
    session_id,
    count(*) filter (
        name = 'claude_code.user_prompt'
        and attributes['command_source'] is distinct from 'builtin'
    )::bigint as prompts,
    count(distinct attributes['tool_use_id']) filter (
        name = 'claude_code.tool_result'
    )::bigint as total_tools,
    sum(
        attributes['input_tokens']::bigint + attributes['output_tokens']::bigint
        + coalesce(attributes['cache_read_tokens'], '0')::bigint
        + coalesce(attributes['cache_creation_tokens'], '0')::bigint
    )::bigint as total_tokens,
    case
        when count(*) filter (name = 'claude_code.api_request') = count(attributes['cost_usd'])
            then round(sum(attributes['cost_usd']::double), 6)
    end as total_cost
from told
where session_id = (select session_id from newest)
group by session_id
"""


def newest(source: str) -> dict[str, object]:
    """Prompts, tool calls, tokens and cost of the session that began last."""
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    connection.execute(_LOAD, [source])
    connection.execute(_EVENTS.format(values=", ".join(_values(connection))))
    rows = connection.execute(_NEWEST)
    names = [column[0] for column in rows.description]
    row = rows.fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))


def _values(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The kinds of value that were found in the file, as text: a missing one is an error."""
    described = connection.execute("describe requests").fetchall()
    logs = next(str(row[1]) for row in described if row[0] == "resourceLogs")
    return [f'a."value"."{kind}"::varchar' for kind in KINDS if kind in logs]
