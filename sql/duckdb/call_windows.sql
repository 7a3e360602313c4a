-- Grain: one row per window of a session: what the numbers in tool_calls stand for.
-- Reads: sessions, session_windows.
select
    windows.session_window_no as window_no,
    sessions.organization_id,
    sessions.session_date,
    windows.session_key,
    sessions.session_id
from session_windows as windows
inner join sessions using (session_no)
order by window_no
