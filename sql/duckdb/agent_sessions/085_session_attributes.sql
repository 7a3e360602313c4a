-- Grain: one row per window of a session whose events have attributes for columns.
-- Reads: agent_events, event_windows.
-- Of each attribute the newest value counts: not every record repeats it.
with attributes as (
    select
        event_windows.session_no,
        event_windows.window_no,
        event_windows.position,
        unnest(events.session_attributes) as attribute
    from event_windows
    inner join agent_events as events
        on event_windows.row_no = events.row_no
    where events.session_attributes is not null
),

newest as (
    select
        session_no,
        window_no,
        attribute.key as name,
        arg_max(attribute.value, position) as newest_value
    from attributes
    group by
        session_no,
        window_no,
        attribute.key
)

select
    session_no,
    window_no,
    list({'key': name, 'value': newest_value} order by name) as session_attributes
from newest
group by
    session_no,
    window_no
