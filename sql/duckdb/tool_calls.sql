-- Grain: one row per tool call of a session; in sessions whose results are logged also one per
-- prompt and reply that has its text.
-- Reads: agent_events, and what the files in agent_sessions/ make of it.
with sessions_with_text as (
    select
        session_no,
        bool_or(event_name = 'tool_result' and success and has_content) as has_results,
        -- The model answered, and nothing of what it said was logged.
        bool_or(event_name in ('assistant_response', 'api_request'))
        and not bool_or(event_name in ('assistant_response', 'api_request') and has_content)
            as hides_replies
    from session_events
    group by session_no
),

rows_wanted as (
    select
        session_no,
        window_no,
        position,
        'call' as kind,
        call_outcome
    from call_outcomes
    union all
    select
        events.session_no,
        event_windows.window_no,
        events.position,
        case when events.event_name = 'user_prompt' then 'prompt' else 'reply' end as kind,
        null as call_outcome
    from session_events as events
    inner join sessions_with_text as texts
        on events.session_no = texts.session_no
    inner join event_windows
        on
            events.session_no = event_windows.session_no
            and events.position = event_windows.position
    where
        texts.has_results
        and events.event_name in ('user_prompt', 'assistant_response', 'api_request')
        and events.has_content
)

select
    sessions.organization_id,
    sessions.session_id,
    windows.session_key,
    sessions.session_date,
    rows_wanted.position,
    rows_wanted.kind,
    rows_wanted.call_outcome as outcome,
    events.event_time,
    -- What belongs to one prompt, also where the source does not name it.
    coalesce(events.prompt_id, 'turn ' || session_events.turn_no) as prompt,
    coalesce(events.tool_name, '(unnamed)') as tool,
    coalesce(events.tool_class, 'other') as tool_class,
    events.duration_ms,
    events.tool_parameters as parameters,
    -- What a failed call gave back is its error.
    case
        when rows_wanted.kind <> 'call' or texts.has_results
            then coalesce(events.content, events.error)
    end as said,
    case
        when rows_wanted.call_outcome = 'failed'
            then left(coalesce(events.error, events.content), 200)
    end as error,
    events.content is not null as has_content,
    texts.hides_replies,
    coalesce(
        try_cast(events.attributes ->> '$.tool_result_size_bytes' as bigint),
        try_cast(events.attributes ->> '$.content_length' as bigint),
        strlen(coalesce(events.content, events.error))
    ) as returned_bytes
from rows_wanted
inner join sessions
    on rows_wanted.session_no = sessions.session_no
inner join sessions_with_text as texts
    on rows_wanted.session_no = texts.session_no
inner join session_windows as windows
    on
        rows_wanted.session_no = windows.session_no
        and rows_wanted.window_no = windows.window_no
inner join session_events
    on
        rows_wanted.session_no = session_events.session_no
        and rows_wanted.position = session_events.position
inner join agent_events as events
    on
        session_events.event_id = events.event_id
        and sessions.session_date is not distinct from events.session_date
order by
    sessions.session_date,
    sessions.organization_id,
    sessions.session_id,
    rows_wanted.position
