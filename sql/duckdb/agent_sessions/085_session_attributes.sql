-- Grain: one row per window of a session whose events have attributes for columns.
-- Reads: agent_events, event_windows.
-- Of each attribute the newest value counts: not every record repeats it.
with attributes as (
    select
        event_windows.session_no,
        event_windows.window_no,
        event_windows.position,
        unnest(events.session_attributes) as sent
    from event_windows
    inner join agent_events as events using (row_no)
    where events.session_attributes is not null
),

named as (
    select
        session_no,
        window_no,
        position,
        struct_extract(sent, 'key') as attribute_name,
        struct_extract(sent, 'value') as attribute_value
    from attributes
),

newest as (
    select
        session_no,
        window_no,
        struct_pack(
            key := attribute_name,
            value := arg_max(attribute_value, position)
        ) as entry
    from named
    group by
        session_no,
        window_no,
        attribute_name
)

select
    session_no,
    window_no,
    list_sort(list(entry)) as session_attributes
from newest
group by
    session_no,
    window_no
