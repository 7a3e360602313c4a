-- Grain: one row per tool call of a session and per event about its outcome; in sessions whose
-- results are logged also one per prompt and reply that has its text.
-- Reads: agent_events, event_texts_landed, and what the files in agent_sessions/ make of them.
-- Sessions and windows are numbers, which call_windows tells: their names on each row would take
-- more memory than all else of a row.
with sessions_with_text as (
    select
        session_no,
        bool_or(event_name = 'tool_result' and success is distinct from false and has_content)
            as has_results,
        -- The model answered, and nothing of what it said was logged.
        bool_or(event_name in ('assistant_response', 'api_request'))
        and not bool_or(event_name in ('assistant_response', 'api_request') and has_content)
            as hides_replies
    from session_events
    group by session_no
),

-- What belongs to one prompt, where the source does not say.
turns as (
    select
        session_no,
        position as prompt_position,
        row_number() over (
            partition by session_no
            order by position
        ) as turn_no
    from session_events
    where event_name = 'user_prompt'
),

rows_wanted as (
    select
        row_no,
        'call' as kind,
        call_outcome
    from call_outcomes
    union all
    select
        row_no,
        'outcome' as kind,
        null as call_outcome
    from event_windows
    where event_name = 'outcome'
    union all
    select
        events.row_no,
        case when events.event_name = 'user_prompt' then 'prompt' else 'reply' end as kind,
        null as call_outcome
    from event_windows as events
    inner join sessions_with_text as texts using (session_no)
    where
        texts.has_results
        and events.event_name in ('user_prompt', 'assistant_response', 'api_request')
        and events.has_content
),

-- The same copy of an event can have its texts twice: a line that was retried lands again. A line
-- may have an event of several organizations; whose those without are, a build decides.
texts_wanted as (
    select
        rows_wanted.row_no,
        coalesce(
            min(texts.row_no) filter (
                where texts.organization_id is not distinct from events.organization_id
            ),
            min(texts.row_no)
        ) as text_row_no
    from rows_wanted
    inner join agent_events as events using (row_no)
    inner join event_texts_landed as texts
        on
            events.event_id = texts.event_id
            and events.source_file_id = texts.source_file_id
            and events.source_offset = texts.source_offset
            and coalesce(texts.organization_id, 'default') in (
                coalesce(events.organization_id, 'default'), 'default'
            )
    group by rows_wanted.row_no
),

-- A span within the call may have the text of its error.
errors as (
    select
        event_id,
        min(error) as error
    from event_texts_landed
    where
        event_id in (
            select error_event_id from agent_events
            where error_event_id is not null
        )
    group by event_id
)

select
    event_windows.session_no,
    windows.session_window_no as window_no,
    event_windows.position,
    rows_wanted.kind,
    rows_wanted.call_outcome as outcome,
    events.event_time,
    coalesce(events.prompt_id, 'turn ' || coalesce(turns.turn_no, 0)) as prompt,
    case
        when rows_wanted.kind = 'outcome' then events.source_event_name
        else coalesce(events.tool_name, '(unnamed)')
    end as tool,
    coalesce(events.tool_class, 'other') as tool_class,
    events.duration_ms,
    event_texts.tool_parameters as parameters,
    case when rows_wanted.kind = 'outcome' then event_texts.attributes end as attributes,
    -- What it can be corrected by.
    case
        when rows_wanted.kind = 'outcome' then lower(hex(events.event_id))
        when rows_wanted.kind = 'call' then event_texts.attributes ->> '$.git_commit_id'
    end as reference,
    -- What a failed call gave back is its error.
    case
        when rows_wanted.kind <> 'call' or texts.has_results
            then coalesce(event_texts.content, event_texts.error, errors.error)
    end as said,
    case
        when rows_wanted.call_outcome = 'failed'
            then left(coalesce(event_texts.error, errors.error, event_texts.content), 200)
    end as error,
    event_windows.has_content,
    texts.hides_replies,
    coalesce(
        try_cast(event_texts.attributes ->> '$.tool_result_size_bytes' as bigint),
        try_cast(event_texts.attributes ->> '$.content_length' as bigint),
        strlen(coalesce(event_texts.content, event_texts.error, errors.error))
    ) as returned_bytes
from rows_wanted
inner join event_windows using (row_no)
inner join sessions_with_text as texts using (session_no)
inner join session_windows as windows using (session_no, window_no)
inner join agent_events as events using (row_no)
left join texts_wanted using (row_no)
left join event_texts_landed as event_texts
    on texts_wanted.text_row_no = event_texts.row_no
left join errors
    on events.error_event_id = errors.event_id
left join turns using (session_no, prompt_position)
order by
    event_windows.session_no,
    event_windows.position
