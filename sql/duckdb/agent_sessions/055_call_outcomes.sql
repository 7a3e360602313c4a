-- Grain: one row per tool call of a session, at the one event that tells its outcome.
-- Reads: agent_events, event_windows.
with call_events as (
    select
        event_windows.session_no,
        event_windows.position,
        event_windows.row_no,
        events.event_name,
        events.success,
        events.decision,
        events.tool_use_id is not null as has_tool_use_id,
        coalesce(events.tool_use_id, hex(events.event_id)) as call_id
    from agent_events as events
    inner join event_windows using (row_no)
    where events.event_name in ('tool_result', 'tool_decision')
),

-- What is known of a call in its whole session: its records may fall into several windows.
calls as (
    select
        session_no,
        call_id,
        min(position) filter (where decision = 'reject') as rejected_position,
        min(position) filter (where decision = 'accept') as accepted_position,
        bool_or(event_name = 'tool_result') as has_result
    from call_events
    group by
        session_no,
        call_id
),

-- The outcome is at the result, or at the decision where there is no result. A call that was
-- accepted without an id may be any later result: it is not counted by itself.
outcomes as (
    select
        events.row_no,
        case
            when calls.rejected_position is not null and calls.accepted_position is null
                then case when events.position = calls.rejected_position then 'denied' end
            when events.event_name = 'tool_result' and events.success is null then 'unknown'
            when events.event_name = 'tool_result' and events.success then 'ok'
            when events.event_name = 'tool_result' then 'failed'
            when
                events.has_tool_use_id
                and not calls.has_result
                and events.position = calls.accepted_position
                then 'unknown'
        end as call_outcome
    from call_events as events
    inner join calls using (session_no, call_id)
)

select
    row_no,
    call_outcome
from outcomes
where call_outcome is not null
