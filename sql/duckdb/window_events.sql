-- Grain: one row per event of a session window, without dons and doffs: which window it is in.
-- Reads: what the files in agent_sessions/ make of agent_events.
select
    sessions.session_date,
    sessions.organization_id,
    windows.session_key,
    coalesce(content_hashes.content_hash, sha256('')) as content_hash,
    event_windows.position,
    event_windows.event_id
from event_windows
inner join session_windows as windows using (session_no, window_no)
inner join sessions using (session_no)
left join content_hashes using (session_no, window_no)
order by
    sessions.session_date,
    sessions.organization_id,
    windows.session_key,
    event_windows.position
