-- Grain: one row per window of a session: one masque worn once, or the baseline.
-- Reads: agent_events, and what the files in agent_sessions/ make of it.
-- $session_idle_minutes: a gap between two events counts as active time up to this long.

with events as (
    select
        event_windows.session_no,
        event_windows.window_no,
        event_windows.position,
        event_windows.event_name,
        event_windows.is_work,
        event_windows.is_lifecycle,
        event_windows.has_content,
        events.has_parameters,
        events.user_id,
        events.user_email,
        events.account_id,
        events.host_user,
        events.team_id,
        events.repository,
        events.branch,
        events.environment,
        events.agent_id,
        events.service_name,
        events.service_version,
        events.source_cli,
        events.is_subagent,
        events.classification_label,
        events.model_variant,
        events.source_event_name,
        events.tool_class,
        events.success,
        events.duration_ms,
        calls.call_outcome,
        coalesce(calls.call_outcome in ('ok', 'failed'), false) as is_counted_call,
        -- Within the window: an event of a run that joined it may lie before its don.
        epoch_us(
            least(greatest(event_windows.event_time, windows.started_at), windows.ended_at)
        ) as at_us,
        -- The gap before an event is active time, as far as it lies in the window; nothing lies
        -- before the first one of the session.
        case
            when event_windows.is_lifecycle or event_windows.previous_event_at is null then at_us
            else epoch_us(
                least(
                    greatest(event_windows.previous_event_at, windows.started_at),
                    windows.ended_at
                )
            )
        end as previous_us
    from event_windows
    inner join session_windows as windows using (session_no, window_no)
    inner join agent_events as events using (row_no)
    left join call_outcomes as calls using (row_no)
),

totals as (
    select
        session_no,
        window_no,
        -- arg_max() by position is the newest that is known.
        arg_max(user_id, position) as sent_user_id,
        arg_max(user_email, position) as sent_user_email,
        arg_max(account_id, position) as sent_account_id,
        arg_max(host_user, position) as host_user,
        arg_max(team_id, position) as team_id,
        arg_max(repository, position) as repository,
        arg_max(branch, position) as branch,
        arg_max(environment, position) as environment,
        arg_max(agent_id, position) as agent_id,
        arg_max(service_name, position) as service_name,
        arg_max(service_version, position) as service_version,
        arg_max(classification_label, position) as classification_label,
        -- Older versions of Codex tell the reasoning effort only when a conversation starts.
        arg_max(model_variant, position) filter (
            where source_event_name = 'conversation_starts'
        ) as starting_variant,
        mode(source_cli order by source_cli) as source_cli,
        -- A session that also says that it is none is none.
        coalesce(bool_and(is_subagent), false) as is_subagent,
        sum(
            least(at_us - previous_us, $session_idle_minutes::bigint * 60000000)
        )::bigint as active_us,
        max(at_us) filter (where not is_lifecycle) as last_us,
        max(position) filter (where not is_lifecycle) as last_active_position,
        max(position) filter (where event_name = 'session_end') as end_position,
        max(position) filter (where is_work) as last_work_position,
        bool_or(event_name = 'session_end' and success is not distinct from false) as has_failed,
        bool_or(event_name in ('assistant_response', 'api_request', 'tool_result')) as has_reply,
        (count(*) filter (where event_name = 'user_prompt'))::bigint as prompts,
        (count(*) filter (where is_counted_call))::bigint as total_tools,
        (count(*) filter (where call_outcome = 'ok'))::bigint as tools_ok,
        (count(*) filter (where call_outcome = 'failed'))::bigint as tools_failed,
        (count(*) filter (where call_outcome = 'denied'))::bigint as tools_denied,
        (count(*) filter (where call_outcome = 'unknown'))::bigint as tools_unknown,
        histogram(coalesce(tool_class, 'other')) filter (where is_counted_call) as calls_by_class,
        quantile_cont(duration_ms, [0.5, 0.95]) filter (where is_counted_call) as tool_ms,
        count(*) filter (where event_name = 'tool_result') as results,
        count(*) filter (
            where event_name = 'tool_result' and (has_parameters or has_content)
        ) as results_with_content,
        bool_or(event_name in ('assistant_response', 'api_request') and has_content)
            as has_reply_text,
        bool_or(event_name = 'assistant_response') as has_replies,
        bool_or(event_name = 'user_prompt' and has_content) as has_prompt_text
    from events
    group by
        session_no,
        window_no
),

-- GenAI events tell tool calls by records of their own, or by the messages of a request. Without
-- either in a session, whether there were any is unknown. Copilot Chat logs each call.
told as (
    select
        *,
        bool_or(
            source_cli is distinct from 'genai'
            or service_name is not distinct from 'copilot-chat'
            or results > 0
            or prompts > 0
            or has_reply_text
            or has_replies
        ) over (partition by session_no) as tells_calls
    from totals
),

counts as (
    select
        session_no,
        window_no,
        case when tells_calls then total_tools end as total_tools,
        case when tells_calls then tools_ok end as tools_ok,
        case when tells_calls then tools_failed end as tools_failed,
        case when tells_calls then tools_denied end as tools_denied,
        case when tells_calls then tools_unknown end as tools_unknown
    from told
),

-- Events that were landed by an older version have e-mails and anonymous hashes as user_id, too.
identities as (
    select
        session_no,
        window_no,
        case when not regexp_full_match(sent_user_id, '[0-9a-f]{64}') then sent_user_id end
            as given_user_id,
        coalesce(
            sent_user_email,
            case when contains(given_user_id, '@') then given_user_id end
        ) as user_email,
        coalesce(given_user_id, user_email) as user_id,
        coalesce(
            sent_account_id,
            case when given_user_id is null then sent_user_id end
        ) as account_id
    from totals
),

mixes as (
    select
        session_no,
        window_no,
        total_tools as total,
        coalesce(calls_by_class['web'], 0) as web,
        coalesce(calls_by_class['shell'], 0) as shell,
        coalesce(calls_by_class['edit'], 0) as edit,
        coalesce(calls_by_class['write'], 0) as write,
        edit + write as changes,
        coalesce(calls_by_class['read'], 0) + coalesce(calls_by_class['search'], 0) as looks
    from totals
),

task_classes as (
    select
        session_no,
        window_no,
        case
            when total < 3 then 'unclassified'
            when web >= 3 and web >= 0.15 * total then 'research'
            when changes < 0.05 * total and looks >= 0.45 * total then 'review'
            when shell >= 0.50 * total and changes < 0.10 * total then 'ops'
            when shell >= 5 and shell >= 0.30 * total and changes >= 1 then 'debug'
            when write >= 5 and write >= edit and changes >= 0.15 * total then 'greenfield'
            when changes >= 0.10 * total and edit >= write then 'refactor'
            else 'unclassified'
        end as task_class
    from mixes
)

select
    windows.session_key,
    sessions.session_id,
    sessions.organization_id,
    identities.user_id,
    identities.user_email,
    identities.account_id,
    totals.host_user,
    totals.team_id,
    totals.repository,
    totals.branch,
    totals.environment,
    session_attributes.session_attributes,
    coalesce(totals.agent_id, windows.masque, totals.service_name) as agent_id,
    totals.is_subagent,
    windows.masque,
    windows.attribution,
    totals.source_cli,
    totals.service_version,
    api_use.model,
    case
        when api_use.model <> 'mixed' then coalesce(api_use.model_variant, totals.starting_variant)
    end as model_variant,
    api_use.provider,
    coalesce(api_use.models, []::varchar[]) as models,
    coalesce(totals.classification_label, 'general') as classification_label,
    task_classes.task_class,
    windows.started_at,
    windows.ended_at,
    windows.doff_position is not null
    or coalesce(totals.end_position > coalesce(totals.last_work_position, 0), false)
        as explicit_end,
    (epoch_us(windows.ended_at) - epoch_us(windows.started_at)) / 1e6 as duration_s,
    (
        totals.active_us
        -- The gap up to a doff is active time if an event follows: it goes on to that event.
        + case
            when
                windows.doff_position is not null
                and totals.last_active_position < max(totals.last_active_position) over (
                    partition by windows.session_no
                )
                then least(
                    epoch_us(windows.ended_at) - totals.last_us,
                    $session_idle_minutes::bigint * 60000000
                )
            else 0
        end
    ) / 1e6 as active_s,
    case
        when totals.has_failed or api_use.ends_in_error then 'failed'
        when not totals.has_reply then 'cancelled'
        else 'completed'
    end as status,
    -- A sub-agent is asked by its parent.
    case when totals.is_subagent then 0 else totals.prompts end as prompts,
    counts.total_tools,
    counts.tools_ok,
    counts.tools_failed,
    counts.tools_denied,
    counts.tools_unknown,
    coalesce(api_use.api_requests, 0) as api_requests,
    coalesce(api_use.api_errors, 0) as api_errors,
    api_use.input_tokens,
    api_use.output_tokens,
    api_use.cache_read_tokens,
    api_use.cache_creation_tokens,
    api_use.reasoning_tokens,
    api_use.total_tokens,
    api_use.cost_usd,
    coalesce(api_use.cost_known_calls, 0) as cost_known_calls,
    totals.tool_ms[1] as median_tool_ms,
    totals.tool_ms[2] as p95_tool_ms,
    api_use.api_ms,
    api_use.mean_api_ms,
    coalesce(
        list_sort(map_entries(totals.calls_by_class)),
        []
    )::struct("key" varchar, "value" bigint)[] as tool_mix,
    coalesce(used.used, []) as used,
    missing_events.missing_events,
    case
        when totals.has_reply_text then 'full'
        when totals.results > 0 and 2 * totals.results_with_content >= totals.results then 'full'
        when totals.has_prompt_text then 'prompts'
        else 'none'
    end as content_level,
    coalesce(content_hashes.content_hash, sha256('')) as content_hash,
    sessions.session_date
from session_windows as windows
inner join sessions using (session_no)
inner join totals using (session_no, window_no)
inner join counts using (session_no, window_no)
inner join identities using (session_no, window_no)
inner join task_classes using (session_no, window_no)
left join api_use using (session_no, window_no)
left join missing_events using (session_no, window_no)
left join used using (session_no, window_no)
left join session_attributes using (session_no, window_no)
left join content_hashes using (session_no, window_no)
order by
    sessions.session_date,
    sessions.organization_id,
    windows.session_key
