-- Grain: one row per event of a session; an attribution line once for each session it applies to.
-- Reads: ordered_events, in its order: a window that is not partitioned goes by the order of the
-- rows as they are, in one pass. (To ignore nulls in lag() instead is slow where nearly all are.)
with numbered as (
    select
        *,
        row_number() over () as event_no,
        (session_no is distinct from lag(session_no) over ()) as is_first,
        -- Starts, ends, dons and doffs show no activity.
        not is_lifecycle and not is_attribution as is_active
    from ordered_events
),

-- The newest of each up to here, of whichever session.
running as (
    select
        *,
        max(case when is_first then event_no end) over up_to_here as first_event_no,
        max(case when event_name = 'user_prompt' then event_no end) over up_to_here as prompt_no,
        max(case when is_active then event_no end) over up_to_here as active_no,
        arg_max(event_time, case when is_active then event_no end) over up_to_here as active_at
    from numbered
    -- The linter knows no window that has a frame alone.
    window up_to_here as (rows between unbounded preceding and current row) -- noqa: PRS
),

with_those_before as (
    select
        *,
        lag(active_no) over () as previous_active_no,
        lag(active_at) over () as previous_active_at
    from running
)

select
    session_no,
    -- The order in a session, from 1.
    event_no - first_event_no + 1 as position,
    row_no,
    event_id,
    event_time,
    case when previous_active_no >= first_event_no then previous_active_at end as previous_event_at,
    -- Of the last prompt up to here: what belongs to it, where the source does not say.
    case when prompt_no >= first_event_no then prompt_no - first_event_no + 1 end
        as prompt_position,
    event_name,
    is_attribution,
    is_work,
    is_lifecycle,
    sequence,
    masque,
    success,
    has_content
from with_those_before
