-- Grain: one row per log record of {table} from {low} to before {high}, by time.
-- Rows without a time have that of their attribute event.timestamp.
-- noqa: disable=capitalisation.identifiers
select
    toUnixTimestamp64Nano(
        if(
            Timestamp < fromUnixTimestamp({earliest_second:Int64}),
            coalesce(
                parseDateTime64BestEffortOrNull(LogAttributes['event.timestamp'], 9, 'UTC'),
                Timestamp
            ),
            Timestamp
        )
    ) as time_ns,
    toUnixTimestamp64Nano(Timestamp) as sent_ns,
    TraceId as trace_id,
    SpanId as span_id,
    toString(SeverityText) as severity_text,
    Body as body,
    toString(ScopeName) as scope_name,
    toString(ScopeVersion) as scope_version,
    if({has_names:Bool}, toString({event_name:Identifier}), '') as event_name,
    arrayMap(x -> toString(x), mapKeys(ResourceAttributes)) as resource_keys,
    mapValues(ResourceAttributes) as resource_values,
    arrayMap(x -> toString(x), mapKeys(LogAttributes)) as attribute_keys,
    mapValues(LogAttributes) as attribute_values
from {table:Identifier}
where
    (
        {pruned_by:Identifier} <= fromUnixTimestamp({earliest_second:Int64})
        or {pruned_by:Identifier} >= fromUnixTimestamp({first_second:Int64})
        and {pruned_by:Identifier} <= fromUnixTimestamp({last_second:Int64})
    )
    and time_ns >= {low:Int64}
    and time_ns < {high:Int64}
order by time_ns
