"""chDB: ``JSONEachRow`` with an explicit structure into Parquet.

The fastest of a dozen ways that were tried: values as a map of their one kind, arrays of nullable
text (one that is missing is null by itself), attributes found by their position.
"""

import chdb

from evaluation_pipelines_tests.benchmarks.columns import (
    ATTRIBUTES_WITH_COLUMN,
    COLUMNS,
    OF_RESOURCE_TOO,
    Column,
    quoted_list,
)

_CASTS = {
    "text": "{}",
    "count": "toInt64OrNull({})",
    "amount": "toFloat64OrNull({})",
    "flag": "accurateCastOrNull({}, 'Bool')",
}
_ATTRIBUTES = "Array(Tuple(key String, value Map(String, String)))"
_LINE = (
    f"resourceLogs Array(Tuple(resource Tuple(attributes {_ATTRIBUTES}), scopeLogs Array(Tuple("
    "logRecords Array(Tuple(timeUnixNano Int64, observedTimeUnixNano Int64, "
    f"body Tuple(stringValue Nullable(String)), attributes {_ATTRIBUTES}))))))"
)
_VALUES = "arrayMap(a -> toNullable(mapValues(a)[1]), tupleElement({}.attributes, 'value'))"
_NAMES = "tupleElement({}.attributes, 'key')"

SQL = """
insert into function file('{target}', 'Parquet')
with requests as (
    select arrayJoin(resourceLogs) as request from file('{source}', 'JSONEachRow', '{line}')
),
scopes as (
    select
        {resource_names} as resource_names,
        {resource_values} as resource_values,
        resource_values[indexOf(resource_names, 'service.name')] as service_name,
        resource_values[indexOf(resource_names, 'service.version')] as service_version,
        {of_resource},
        arrayJoin(request.scopeLogs) as scope
    from requests
),
records as (
    select service_name, service_version, {of_resource_names}, arrayJoin(scope.logRecords) as record
    from scopes
),
plain as (
    select service_name, service_version, {of_resource_names}, record,
        {names} as names, {vals} as vals
    from records
)
select
    fromUnixTimestamp64Micro(intDiv(record.timeUnixNano, 1000)) as event_time,
    if(record.observedTimeUnixNano = 0, null,
        fromUnixTimestamp64Micro(intDiv(record.observedTimeUnixNano, 1000))) as observed_time,
    toDate32(event_time) as session_date,
    service_name,
    service_version,
    record.body.stringValue as source_event_name,
    {columns},
    toJSONString(mapFromArrays(
        arrayFilter(name -> name not in ({known}), names),
        arrayFilter((value, name) -> name not in ({known}), vals, names)
    )) as attributes
from plain
where has(names, 'session.id')
settings max_threads = {threads}, input_format_parallel_parsing = 1,
    input_format_skip_unknown_fields = 1, input_format_json_read_numbers_as_strings = 1,
    input_format_json_read_bools_as_strings = 1, input_format_json_read_arrays_as_strings = 1,
    input_format_json_read_objects_as_strings = 1, output_format_parquet_string_as_string = 1,
    output_format_parquet_compression_method = 'zstd', engine_file_truncate_on_insert = 1
"""


def produce(source: str, folder: str, threads: int) -> dict[str, str]:
    """Write the events of a file as Parquet; gives where."""
    target = f"{folder}/events.parquet"
    shared = [column for column in COLUMNS if column.name in OF_RESOURCE_TOO]
    chdb.query(
        SQL.format(
            source=source,
            target=target,
            threads=threads,
            line=_LINE,
            resource_names=_NAMES.format("request.resource"),
            resource_values=_VALUES.format("request.resource"),
            names=_NAMES.format("record"),
            vals=_VALUES.format("record"),
            of_resource=", ".join(
                f"resource_values[indexOf(resource_names, '{column.attributes[0]}')] "
                f"as resource_{column.name}"
                for column in shared
            ),
            of_resource_names=", ".join(f"resource_{column.name}" for column in shared),
            columns=",\n    ".join(map(_expression, COLUMNS)),
            known=quoted_list(ATTRIBUTES_WITH_COLUMN),
        )
    )
    return {"parquet": target}


def _expression(column: Column) -> str:
    found = [f"vals[indexOf(names, '{attribute}')]" for attribute in column.attributes]
    if column.name in OF_RESOURCE_TOO:
        found.append(f"resource_{column.name}")
    value = found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"
    return f"{_CASTS[column.kind].format(value)} as {column.name}"
