-- Grain: one row per minute with rows of {table} from {low} on.
-- Rows without a time ({untimed}) have that of their attribute event.timestamp.
-- noqa: disable=capitalisation.identifiers
select
    intDiv(time_ns - positiveModulo(time_ns, 60000000000), 60000000000) as minute,
    count() as row_count
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
        ) as time_ns
    from {table:Identifier}
    where
        {pruned_by:Identifier} >= fromUnixTimestamp(if({untimed:Bool}, 0, {first_second:Int64}))
        and {pruned_by:Identifier} <= fromUnixTimestamp(
            if({untimed:Bool}, {earliest_second:Int64}, {last_second:Int64})
        )
        and (Timestamp < fromUnixTimestamp({earliest_second:Int64})) = {untimed:Bool}
) as times
where time_ns >= {low:Int64}
group by minute
order by minute
