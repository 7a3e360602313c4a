-- Grain: one row per table: how much it holds, and the time of its newest row.
-- Reads: reputation_events, agent_evaluations, reputation_scores.
with tables as (
    select
        'agent_evaluations' as name,
        toInt64(count()) as row_count,
        maxOrNull(toDateTime64(evaluated_at, 6, 'UTC')) as newest
    from agent_evaluations final
    union all
    select
        'reputation_events' as name,
        toInt64(count()) as row_count,
        maxOrNull(toDateTime64(timestamp, 6, 'UTC')) as newest
    from reputation_events final
    union all
    select
        'reputation_scores' as name,
        toInt64(count()) as row_count,
        maxOrNull(toDateTime64(computed_at, 6, 'UTC')) as newest
    from reputation_scores final
)

select
    name,
    row_count,
    newest
from tables
order by name
