-- Grain: one row per live signal among {ids}, several for a signal that is being moved.
-- Reads: reputation_events.
-- Not with `final`: that would merge the whole table to find a few rows.
with versions as (
    select *
    from reputation_events
    where event_id in {ids:Array(UUID)}
    order by
        revision desc,
        is_deleted desc
    limit 1 by event_id, identity_id, timestamp
)

select
    toString(event_id) as event_id,
    timestamp,
    toString(identity_id) as identity_id,
    category,
    event_type,
    score_delta,
    confidence,
    reference_type,
    reference_id,
    attributes,
    toInt64(revision) as revision
from versions
where is_deleted = 0
order by
    event_id,
    revision,
    identity_id,
    timestamp
