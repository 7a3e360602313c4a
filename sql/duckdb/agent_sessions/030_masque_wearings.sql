-- Grain: one row per don or doff of a session, in its order.
-- Reads: session_events.
-- The function masque_wearings() of the program makes the step's table of these rows: which doff
-- belongs to which don, and which of nested masques is worn when.
select
    session_no,
    position,
    event_time,
    event_name = 'masque_don' as is_don,
    masque
from session_events
where
    event_name = 'masque_doff'
    or (
        event_name = 'masque_don'
        and masque is not null
    )
order by
    session_no,
    position
