-- Grain: one row per event; what a client, a collector or a backup sent twice is there once.
-- Reads: agent_events_landed, of one date or of several: each date by itself.
-- Copies are looked for in the few columns that tell them, so that only they are ever compared:
-- ranking all rows with all their text costs three times as much.
with repeated_events as (
    select event_id
    from agent_events_landed
    group by
        session_date,
        event_id
    having count(*) > 1
),

-- One API call can be logged again under another time: the first one counts.
later_request_copies as (
    select
        session_date,
        event_id
    from (
        select distinct
            event_id,
            session_date,
            organization_id,
            session_id,
            request_id,
            event_time
        from agent_events_landed
        where
            event_name = 'api_request'
            and request_id is not null
    ) as requests
    qualify row_number() over (
        partition by
            session_date,
            organization_id,
            session_id,
            request_id
        order by
            event_time,
            event_id
    ) > 1
),

first_requests as (
    select landed.*
    from agent_events_landed as landed
    anti join later_request_copies as later
        on
            landed.session_date = later.session_date
            and landed.event_id = later.event_id
),

kept_events as (
    select *
    from first_requests
    where event_id not in (select event_id from repeated_events)
    union all
    select *
    from first_requests
    where event_id in (select event_id from repeated_events)
    qualify row_number() over (
        partition by
            session_date,
            event_id
        order by
            event_time,
            source_file_id,
            source_offset
    ) = 1
)

select
    event_id,
    event_time,
    observed_time,
    session_id,
    session_date,
    organization_id,
    agent_id,
    masque,
    user_id,
    team_id,
    source_cli,
    service_name,
    service_version,
    event_name,
    source_event_name,
    sequence,
    prompt_id,
    request_id,
    tool_use_id,
    query_source,
    subagent,
    model,
    provider,
    tool_name,
    tool_type,
    tool_class,
    success,
    success_source,
    exit_code,
    decision,
    error_type,
    error,
    duration_ms,
    ttft_ms,
    cost_usd,
    cost_source,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_creation_tokens,
    reasoning_tokens,
    content,
    tool_parameters,
    classification_label,
    attributes,
    time_anomaly,
    source_file_id,
    source_offset
from kept_events
order by
    organization_id nulls last,
    session_id,
    event_time,
    sequence nulls last,
    event_id
