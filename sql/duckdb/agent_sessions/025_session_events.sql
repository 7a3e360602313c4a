-- Grain: one row per event of a session; an attribution line once for each session it applies to.
-- Reads: ordered_events, in its order: an empty window goes by the order of the rows as they are.
with numbered as (
    select
        *,
        row_number() over () as event_no,
        (session_no is distinct from lag(session_no) over ()) as is_first,
        -- Starts, ends, dons and doffs show no activity.
        case when not (is_lifecycle or is_attribution) then event_time end as active_at
    from ordered_events
),

with_those_before as (
    select
        *,
        lag(active_at ignore nulls) over () as previous_active_at,
        lag(case when active_at is not null then event_no end ignore nulls) over ()
            as previous_active_no,
        lag(case when event_name = 'user_prompt' then event_no end ignore nulls) over ()
            as previous_prompt_no
    from numbered
),

first_events as (
    select
        session_no,
        event_no as first_event_no
    from numbered
    where is_first
)

select
    events.session_no,
    -- The order in a session, from 1.
    events.event_no - first_events.first_event_no + 1 as position,
    events.row_no,
    events.event_id,
    events.event_time,
    case
        when events.previous_active_no >= first_events.first_event_no
            then events.previous_active_at
    end as previous_event_at,
    -- Of the last prompt up to here: what belongs to it, where the source does not say.
    case
        when events.event_name = 'user_prompt'
            then events.event_no - first_events.first_event_no + 1
        when events.previous_prompt_no >= first_events.first_event_no
            then events.previous_prompt_no - first_events.first_event_no + 1
    end as prompt_position,
    events.event_name,
    events.is_attribution,
    events.is_work,
    events.is_lifecycle,
    events.sequence,
    events.masque,
    events.success,
    events.has_content
from with_those_before as events
inner join first_events
    on events.session_no = first_events.session_no
