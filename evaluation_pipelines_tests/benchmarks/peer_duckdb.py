"""DuckDB: ``read_json`` with an explicit schema into Parquet.

The fastest of five ways that were tried: all values read as text, attributes found by their
position; a MAP of the attributes took twice the time, JSON values half again as much.
"""

import duckdb

from evaluation_pipelines_tests.benchmarks.columns import (
    ATTRIBUTES_WITH_COLUMN,
    COLUMNS,
    OF_RESOURCE_TOO,
    Column,
    quoted_list,
)

KINDS = ("stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "kvlistValue")
_TYPES = {"text": "varchar", "count": "bigint", "amount": "double", "flag": "boolean"}
_VALUE = f"struct({', '.join(f'{kind} varchar' for kind in KINDS)})"
_ATTRIBUTES = f'struct("key" varchar, "value" {_VALUE})[]'
_RECORD = (
    '"timeUnixNano" varchar, "observedTimeUnixNano" varchar, body struct("stringValue" varchar), '
    f"attributes {_ATTRIBUTES}"
)
_LINE = (
    f"struct(resource struct(attributes {_ATTRIBUTES}), "
    f'"scopeLogs" struct("logRecords" struct({_RECORD})[])[])[]'
)
_PLAIN = f"coalesce({', '.join(f'a.value.{kind}' for kind in KINDS)})"
_TIME = "make_timestamptz({}::bigint // 1000)"

SQL = """
copy (
    with requests as (
        select unnest("resourceLogs") as request
        from read_json(
            '{source}', format = 'newline_delimited', columns = {{'resourceLogs': '{line}'}},
            maximum_object_size = 67108864
        )
    ),
    scopes as (
        select
            map_from_entries(
                list_transform(request.resource.attributes, lambda a: row(a.key, {plain}))
            ) as resource,
            unnest(request."scopeLogs") as scope
        from requests
    ),
    records as (select resource, unnest(scope."logRecords") as record from scopes),
    plain as (
        select
            resource, record,
            list_transform(record.attributes, lambda a: a.key) as names,
            list_transform(record.attributes, lambda a: {plain}) as vals
        from records
    )
    select
        {time} as event_time,
        {observed} as observed_time,
        {time}::date as session_date,
        resource['service.name'] as service_name,
        resource['service.version'] as service_version,
        record.body."stringValue" as source_event_name,
        {columns},
        to_json(map_from_entries(
            list_filter(list_zip(names, vals), lambda pair: pair[1] not in ({known}))
        ))::varchar as attributes
    from plain
    where list_contains(names, 'session.id')
) to '{target}' (format parquet, compression zstd)
"""


def produce(source: str, folder: str, threads: int) -> dict[str, str]:
    """Write the events of a file as Parquet; gives where."""
    target = f"{folder}/events.parquet"
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    connection.execute("set preserve_insertion_order = false")
    connection.execute(
        SQL.format(
            source=source,
            target=target,
            line=_LINE,
            plain=_PLAIN,
            time=_TIME.format('record."timeUnixNano"'),
            observed=_TIME.format('record."observedTimeUnixNano"'),
            columns=",\n        ".join(map(_expression, COLUMNS)),
            known=quoted_list(ATTRIBUTES_WITH_COLUMN),
        )
    )
    return {"parquet": target, "columns": str(len(COLUMNS) + 7)}


def _expression(column: Column) -> str:
    found = [f"vals[list_position(names, '{attribute}')]" for attribute in column.attributes]
    if column.name in OF_RESOURCE_TOO:
        found.append(f"resource['{column.attributes[0]}']")
    value = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    cast = value if column.kind == "text" else f"try_cast({value} as {_TYPES[column.kind]})"
    return f"{cast} as {column.name}"
