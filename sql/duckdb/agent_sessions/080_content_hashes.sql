-- Grain: one row per window of a session that holds any work.
-- Reads: agent_events, session_events, event_windows, session_windows.
-- Only what an agent or its user did counts: a late hook event changes nothing, a new prompt does.
with work as (
    select
        session_no,
        window_no,
        position,
        row_no
    from event_windows
    where is_work
    union all
    select
        windows.session_no,
        windows.window_no,
        events.position,
        events.row_no
    from session_windows as windows
    inner join session_events as events
        on
            windows.session_no = events.session_no
            and events.position in (windows.don_position, windows.doff_position)
    where events.is_attribution
)

select
    work.session_no,
    work.window_no,
    sha256(string_agg(lower(hex(events.event_id)), '' order by work.position)) as content_hash
from work
inner join agent_events as events
    on work.row_no = events.row_no
group by
    work.session_no,
    work.window_no
