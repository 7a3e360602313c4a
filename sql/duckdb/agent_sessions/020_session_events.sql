-- Grain: one row per event of a session; an attribution line once for each session it applies to.
-- Reads: agent_events, sessions.
-- `position` is the order in a session: by time, what came at the same time by sequence.
with events as (
    select
        *,
        event_name in ('masque_don', 'masque_doff') as is_attribution
    from agent_events
)

select
    sessions.session_no,
    row_number() over in_order as position,
    -- Prompts up to here: what belongs to one of them, where the source does not say.
    count(*) filter (where events.event_name = 'user_prompt') over in_order as turn_no,
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
    -- They tell when the program ran, not that anybody worked: a program left open is not active.
    events.event_name in ('session_start', 'session_end') as is_lifecycle,
    -- A try over the wire that came to nothing, from a source that logs tries beside requests.
    coalesce(
        events.event_name = 'other'
        and events.source_event_name = 'api_request'
        and not events.success,
        false
    ) as is_failed_try,
    events.sequence,
    events.masque,
    events.agent_id,
    events.user_id,
    events.team_id,
    events.source_cli,
    events.service_name,
    events.service_version,
    events.classification_label,
    case
        when events.event_name in ('tool_result', 'tool_decision')
            then coalesce(events.tool_use_id, hex(events.event_id))
    end as call_id,
    events.tool_use_id is not null as has_tool_use_id,
    events.tool_class,
    events.success,
    events.decision,
    events.duration_ms,
    events.model,
    events.provider,
    events.cost_usd,
    events.input_tokens,
    events.output_tokens,
    events.cache_read_tokens,
    events.cache_creation_tokens,
    events.reasoning_tokens,
    events.content is not null as has_content,
    events.tool_parameters is not null as has_parameters
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
window in_order as (
    partition by sessions.session_no
    order by
        events.event_time,
        events.sequence nulls last,
        events.event_id
    rows between unbounded preceding and current row
)
