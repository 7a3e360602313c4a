-- Grain: one row per window of a session that holds any work.
-- Reads: session_events, event_windows, session_windows.
-- Only what an agent or its user did counts: a late hook event changes nothing, a new prompt does.
with work as (
    select
        session_no,
        window_no,
        position,
        event_id
    from event_windows
    where is_work
    union all
    select
        windows.session_no,
        windows.window_no,
        events.position,
        events.event_id
    from session_windows as windows
    inner join session_events as events
        on
            windows.session_no = events.session_no
            and events.position in (windows.don_position, windows.doff_position)
    where events.is_attribution
)

select
    session_no,
    window_no,
    sha256(string_agg(lower(hex(event_id)), '' order by position)) as content_hash
from work
group by
    session_no,
    window_no
