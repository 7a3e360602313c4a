-- Grain: one row per UTC day of {table} from {low} to before {high}; equal rows count once.
-- Rows without a time ({untimed}) have that of their attribute event.timestamp.
-- noqa: disable=capitalisation.identifiers
select
    intDiv(time_ns, 86400000000000) as day,
    toInt64(uniqExact(row_hash)) as row_count
from (
    select
        toUnixTimestamp64Nano(
            if(
                {untimed:Bool},
                coalesce(
                    parseDateTime64BestEffortOrNull(LogAttributes['event.timestamp'], 9, 'UTC'),
                    Timestamp
                ),
                Timestamp
            )
        ) as time_ns,
        sipHash128(
            Timestamp,
            TraceId,
            SpanId,
            toString(SeverityText),
            Body,
            toString(ScopeName),
            toString(ScopeVersion),
            if({has_names:Bool}, toString({event_name:Identifier}), ''),
            mapSort(ResourceAttributes),
            mapSort(LogAttributes)
        ) as row_hash
    from {table:Identifier}
    where
        {pruned_by:Identifier} >= fromUnixTimestamp({first_second:Int64})
        and {pruned_by:Identifier} <= fromUnixTimestamp({last_second:Int64})
        and (Timestamp < fromUnixTimestamp64Nano({earliest:Int64}, 'UTC')) = {untimed:Bool}
) as hashes
where time_ns >= {low:Int64} and time_ns < {high:Int64}
group by day
order by day
