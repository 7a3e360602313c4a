-- Grain: one row per session of the {session_dates} that ever was a signal.
-- Reads: session_signals.
select distinct
    session_date,
    toString(event_id) as event_id
from session_signals
where session_date in {session_dates:Array(Date)}
order by
    session_date,
    event_id
