"""DuckDB: ``read_json`` with an explicit schema into Parquet, by the work of an ingest or less.

The fastest of five ways that were tried: all values read as text, attributes found by their
position. A MAP of the attributes took twice the time, JSON values half again as much.
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

ROWS = """
    with requests as (
        select {request_no} unnest("resourceLogs") as request
        from read_json(
            '{source}', format = 'newline_delimited', columns = {{'resourceLogs': '{line}'}},
            maximum_object_size = 67108864
        )
    ),
    scopes as (
        select
            map_from_entries(
                list_transform(request.resource.attributes, lambda a: row(a.key, {plain}))
            ) as resource, {kept}
            unnest(request."scopeLogs") as scope
        from requests
    ),
    records as (select resource, {kept} unnest(scope."logRecords") as record from scopes),
    plain as (
        select
            resource, record, {kept}
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
        {columns}, {kept} {identity}
        to_json(map_from_entries(
            list_filter(list_zip(names, vals), lambda pair: pair[1] not in ({known}))
        ))::varchar as attributes
    from plain
    where list_contains(names, 'session.id')
"""

# What an ingest does in addition: an id from what identifies a record, of which equal records of
# a request have several, the date of the session, files by date with rows by bucket.
WHOLE = """
copy (
    with events as ({rows}),
    numbered as (
        select *, row_number() over (partition by request_no, identity) as number from events
    )
    select
        * exclude (request_no, identity, number, session_date),
        md5(identity || number) as event_id,
        min(event_time) over (partition by session_id)::date as session_date,
        (hash(session_id) % 256)::utinyint as bucket
    from numbered
    order by session_date, bucket
) to '{target}' (format parquet, compression zstd, partition_by (session_date), overwrite)
"""
_IDENTITY = """
    md5(concat_ws('|', vals[list_position(names, 'session.id')], record."timeUnixNano",
        record.body."stringValue", list_zip(names, vals)::varchar)) as identity,"""
LESS = "copy ({rows}) to '{target}' (format parquet, compression zstd)"


def produce(source: str, folder: str, threads: int) -> dict[str, str]:
    """Write the events of a file by the work of an ingest, and return where."""
    _write(WHOLE, source, f"{folder}/events", threads)
    return {"parquet": f"{folder}/events/**/*.parquet"}


def produce_less(source: str, folder: str, threads: int) -> dict[str, str]:
    """Write the columns of the events alone into one file, and return where."""
    _write(LESS, source, f"{folder}/events.parquet", threads)
    return {"parquet": f"{folder}/events.parquet"}


def _write(statement: str, source: str, target: str, threads: int) -> None:
    connection = duckdb.connect()
    connection.execute(f"set threads = {threads}")
    connection.execute("set preserve_insertion_order = false")
    is_whole = statement is WHOLE
    rows = ROWS.format(
        request_no="row_number() over () as request_no," if is_whole else "",
        kept="request_no," if is_whole else "",
        identity=_IDENTITY if is_whole else "",
        source=source,
        line=_LINE,
        plain=_PLAIN,
        time=_TIME.format('record."timeUnixNano"'),
        observed=_TIME.format('record."observedTimeUnixNano"'),
        columns=",\n        ".join(map(_expression, COLUMNS)),
        known=quoted_list(ATTRIBUTES_WITH_COLUMN),
    )
    connection.execute(statement.format(rows=rows, target=target))


def _expression(column: Column) -> str:
    found = [f"vals[list_position(names, '{attribute}')]" for attribute in column.attributes]
    if column.name in OF_RESOURCE_TOO:
        found.append(f"resource['{column.attributes[0]}']")
    value = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    cast = value if column.kind == "text" else f"try_cast({value} as {_TYPES[column.kind]})"
    return f"{cast} as {column.name}"
