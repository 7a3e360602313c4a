-- Grain: one row per event of a session; an attribution line once for each session it applies to.
-- Reads: agent_events, sessions.
-- In the order of the sessions; in each by time, what came at the same time by sequence. Only
-- what tells the order and the windows is here: the other columns are looked up by row_no, which
-- takes far less than storing and sorting them.
with events as (
    select
        *,
        event_name in ('masque_don', 'masque_doff') as is_attribution
    from agent_events
    where event_name <> 'evaluation'
)

select
    sessions.session_no,
    events.row_no,
    events.event_id,
    events.event_time,
    events.event_name,
    events.is_attribution,
    -- What an agent or its user did; the rest (hooks, starts, ends) is told about it.
    events.event_name in (
        'user_prompt',
        'assistant_response',
        'tool_result',
        'tool_decision',
        'api_request',
        'api_error'
    ) as is_work,
    -- They tell when the program ran, or what people made of the work later, not that work was
    -- done: a program left open is not active.
    events.event_name in ('session_start', 'session_end', 'outcome') as is_lifecycle,
    events.sequence,
    events.masque,
    events.success,
    events.has_content
from events
inner join sessions
    on
        events.session_id = sessions.session_id
        and events.session_date is not distinct from sessions.session_date
        -- An attribution line knows no organization: it applies to each that has the session.
        and coalesce(
            events.organization_id,
            case when events.is_attribution then sessions.organization_id else 'default' end
        ) = sessions.organization_id
order by
    sessions.session_no,
    events.event_time,
    events.sequence nulls last,
    events.event_id
