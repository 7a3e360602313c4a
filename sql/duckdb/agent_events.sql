-- Grain: one row per event of an organization; what a client, a collector or a backup sent twice
-- is there once.
-- Reads: agent_events_landed, of one date or of several: each date by itself. Of it only the number
-- of a row and the columns that tell copies and the order: moving rows with all their text through
-- a sort costs three times as much as picking them in its order afterwards.
with repeated_events as (
    select event_id
    from agent_events_landed
    group by
        session_date,
        organization_id,
        event_id
    having count(*) > 1
),

-- Each event once, and only then each API request once: a copy whose request id was damaged on its
-- way takes no other event with it.
unique_events as (
    select *
    from agent_events_landed
    where event_id not in (select event_id from repeated_events)
    union all
    select *
    from agent_events_landed
    where event_id in (select event_id from repeated_events)
    qualify row_number() over (
        partition by
            session_date,
            organization_id,
            event_id
        order by
            event_time,
            source_file_id,
            source_offset,
            -- Copies in one line: what is kept may not depend on the order of parts and threads.
            observed_time nulls last,
            row_no
    ) = 1
),

-- One API call can be logged again under another time: the first one counts.
later_request_copies as (
    select
        session_date,
        organization_id,
        event_id
    from unique_events
    where
        event_name = 'api_request'
        and request_id is not null
    qualify row_number() over (
        partition by
            session_date,
            organization_id,
            session_id,
            request_id
        order by
            event_time,
            event_id
    ) > 1
)

select
    unique_events.row_no,
    unique_events.session_date
from unique_events
anti join later_request_copies as later
    on
        unique_events.session_date = later.session_date
        and unique_events.organization_id is not distinct from later.organization_id
        and unique_events.event_id = later.event_id
order by
    unique_events.session_date,
    unique_events.organization_id nulls last,
    unique_events.session_id,
    unique_events.event_time,
    unique_events.sequence nulls last,
    unique_events.event_id
