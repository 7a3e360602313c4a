-- Grain: one row per window in which a sub-agent, a skill or a slash command was used.
-- Reads: agent_events, event_windows, call_outcomes.
-- Records that name a sub-agent or a skill are its work. What follows a slash command is the work
-- of the command: what answers the same prompt, or what comes before the next prompt. The session
-- of a sub-agent has prompts of its own: its work is of the prompt after which it began.
with sessions_with_names as (
    select distinct event_windows.session_no
    from event_windows
    inner join agent_events as events using (row_no)
    where coalesce(events.subagent, events.skill, events.slash_command) is not null
),

events as (
    select
        event_windows.session_no,
        event_windows.window_no,
        event_windows.position,
        event_windows.event_name,
        events.source_event_name,
        events.success,
        events.subagent,
        events.subagent_session_id,
        events.skill,
        nullif(ltrim(events.slash_command, '/'), '') as slash_command,
        case when events.subagent_session_id is null then events.prompt_id end as prompt_id,
        events.cost_usd,
        case
            when events.subagent_session_id is null then event_windows.prompt_position
            else first_value(event_windows.prompt_position) over (
                partition by event_windows.session_no, events.subagent_session_id
                order by event_windows.position
            )
        end as prompt_position,
        event_windows.event_name = 'api_request' as is_request,
        coalesce(calls.call_outcome in ('ok', 'failed'), false) as is_call,
        events.input_tokens::hugeint
        + case
            when coalesce(events.cache_read_tokens, events.cache_creation_tokens) is null then 0
            else events.cache_read_tokens + events.cache_creation_tokens
        end as input_tokens,
        events.output_tokens::hugeint as output_tokens
    from event_windows
    inner join agent_events as events using (row_no)
    left join call_outcomes as calls using (row_no)
    where event_windows.session_no in (select session_no from sessions_with_names)
),

prompts as (
    select
        session_no,
        position,
        prompt_id,
        slash_command
    from events
    where
        event_name = 'user_prompt'
        or (slash_command is not null and subagent_session_id is null)
),

turns as (
    select
        events.*,
        coalesce(by_id.slash_command, by_position.slash_command) as command_of_turn
    from events
    asof left join prompts as by_id
        on
            events.session_no = by_id.session_no
            and events.prompt_id = by_id.prompt_id
            and events.position >= by_id.position
    left join prompts as by_position
        on
            events.session_no = by_position.session_no
            and events.prompt_position = by_position.position
            and events.prompt_id is null
),

named as (
    select
        'subagent' as kind,
        subagent as used_name,
        source_event_name in ('subagent_completed', 'subtask_invoked', 'agent.start')
        -- Sent when it starts, and when it ends: well or not.
        or (source_event_name = 'subagent_execution' and success is not null) as is_use,
        false as tells_all,
        *
    from turns
    where subagent is not null
    union all
    select
        'skill' as kind,
        skill as used_name,
        source_event_name in (
            'skill_activated', 'skill_invocation', 'skill_invoked', 'skill_launch'
        ) as is_use,
        false as tells_all,
        *
    from turns
    where skill is not null
    union all
    select
        'command' as kind,
        coalesce(slash_command, command_of_turn) as used_name,
        slash_command is not null as is_use,
        coalesce(command_of_turn = coalesce(slash_command, command_of_turn), false) as tells_all,
        *
    from turns
    where coalesce(slash_command, command_of_turn) is not null
),

-- A figure that no record tells is unknown. The sums are as those of api_use.
figures as (
    select
        session_no,
        window_no,
        kind,
        used_name,
        coalesce(
            nullif(count(*) filter (where is_use), 0),
            nullif(count(distinct subagent_session_id), 0)
        )::bigint as uses,
        case
            when bool_or(tells_all) or bool_or(is_call) then count(*) filter (where is_call)
        end::bigint as calls,
        case
            when bool_or(tells_all) or bool_or(is_request) then count(*) filter (where is_request)
        end::bigint as api_requests,
        sum(input_tokens) filter (where is_request) as input_tokens,
        sum(output_tokens) filter (where is_request) as output_tokens,
        bool_and(input_tokens + output_tokens is not null) filter (where is_request)
            as are_tokens_known,
        case
            when bool_and(cost_usd is not null) filter (where is_request)
                then sum(cost_usd order by position) filter (where is_request)
        end::double as cost_usd
    from named
    group by
        session_no,
        window_no,
        kind,
        used_name
)

select
    session_no,
    window_no,
    list(
        struct_pack(
            kind := kind,
            name := used_name,
            uses := uses,
            calls := calls,
            api_requests := api_requests,
            total_tokens := case
                when are_tokens_known and not (input_tokens = 0 and output_tokens > 0)
                    then try_cast(input_tokens + output_tokens as bigint)
            end,
            cost_usd := cost_usd
        )
        order by kind, used_name
    ) as used
from figures
group by
    session_no,
    window_no
