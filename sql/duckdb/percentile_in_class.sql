-- Grain: one row per session window: its rank among the windows of its class before its date.
-- Reads: session_performance.
-- Those of the 28 days before in the same organization and task class count, equal composites by
-- half; fewer than 20 are too few to rank among.
select
    session_date,
    organization_id,
    session_key,
    case
        when composite is not null and ranked >= 20
            -- lower + equal / 2 is the mean of lower and lower_or_equal.
            then 100 * (lower + lower_or_equal) / 2 / ranked
    end as percentile_in_class
from (
    select
        session_date,
        organization_id,
        session_key,
        composite,
        count(*) over before as ranked,
        rank(order by composite) over before - 1 as lower,
        count(*) over before - rank(order by composite desc) over before + 1 as lower_or_equal
    from session_performance
    window before as (
        -- Windows without a composite rank among themselves, and get no rank.
        partition by organization_id, task_class, composite is null
        order by session_date
        range between interval 28 days preceding and interval 1 day preceding
    )
) as ranks
