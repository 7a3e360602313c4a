-- Grain: one row per window that called a model: its tokens, cost, models, variant and provider.
-- Reads: agent_events, event_windows.
with api_events as (
    select
        event_windows.session_no,
        event_windows.window_no,
        event_windows.position,
        events.event_name,
        events.event_name = 'api_request' as is_request,
        events.model,
        events.model_variant,
        events.provider,
        events.cost_usd,
        events.duration_ms,
        events.input_tokens,
        events.output_tokens,
        events.cache_read_tokens,
        events.cache_creation_tokens,
        -- Where no count of cached tokens is known, all of them are among the input tokens.
        events.input_tokens::hugeint
        + events.output_tokens
        + case
            when coalesce(events.cache_read_tokens, events.cache_creation_tokens) is null then 0
            else events.cache_read_tokens + events.cache_creation_tokens
        end as total_tokens,
        events.reasoning_tokens
    from agent_events as events
    inner join event_windows using (row_no)
    where
        events.event_name in ('api_request', 'api_error')
        -- An attempt that failed, from a source that logs attempts in addition to requests.
        or (
            events.event_name = 'other'
            and events.source_event_name = 'api_request'
            and not events.success
        )
),

-- A sum is unknown where one request does not say, and 0 where every request failed.
-- Token sums stay hugeint: telemetry may claim any number. Floats are added in order, so that the
-- same events give the same bits.
totals as (
    select
        session_no,
        window_no,
        (count(*) filter (where is_request))::bigint as api_requests,
        (count(*) filter (where event_name = 'api_error'))::bigint as api_errors,
        arg_max(not is_request, position) as ends_in_error,
        case
            when bool_and(input_tokens is not null or not is_request)
                then coalesce(sum(input_tokens) filter (where is_request), 0)::hugeint
        end as input_tokens,
        case
            when bool_and(output_tokens is not null or not is_request)
                then coalesce(sum(output_tokens) filter (where is_request), 0)::hugeint
        end as output_tokens,
        case
            when bool_and(cache_read_tokens is not null or not is_request)
                then coalesce(sum(cache_read_tokens) filter (where is_request), 0)::hugeint
        end as cache_read_tokens,
        case
            when bool_and(cache_creation_tokens is not null or not is_request)
                then coalesce(sum(cache_creation_tokens) filter (where is_request), 0)::hugeint
        end as cache_creation_tokens,
        case
            when bool_and(total_tokens is not null or not is_request)
                then coalesce(sum(total_tokens) filter (where is_request), 0)::hugeint
        end as total_tokens,
        -- Few sources report it: the sum of what was given.
        (sum(reasoning_tokens) filter (where is_request))::hugeint as reasoning_tokens,
        case
            when bool_and(cost_usd is not null or not is_request)
                then coalesce(sum(cost_usd order by position) filter (where is_request), 0)::double
        end as cost_usd,
        (count(cost_usd) filter (where is_request))::bigint as cost_known_calls,
        (sum(duration_ms order by position) filter (where is_request))::double as api_ms,
        (count(duration_ms) filter (where is_request))::bigint as timed_requests
    from api_events
    group by
        session_no,
        window_no
),

-- Those that name the model: the answered requests; where there is none, what failed.
naming_events as (
    select api_events.*
    from api_events
    inner join totals using (session_no, window_no)
    where
        api_events.is_request
        or totals.api_requests = 0
),

tokens_by_model as (
    select
        session_no,
        window_no,
        model,
        coalesce(sum(output_tokens) filter (where is_request), 0)::hugeint as output_tokens
    from naming_events
    where model is not null
    group by
        session_no,
        window_no,
        model
),

models as (
    select
        session_no,
        window_no,
        list(model order by model) as models,
        case
            when count(*) = 1 then any_value(model)
            -- At least 80%, in whole numbers.
            when sum(output_tokens) > 0 and 5 * max(output_tokens) >= 4 * sum(output_tokens)
                then arg_max(model, output_tokens)
        end as main_model
    from tokens_by_model
    group by
        session_no,
        window_no
),

providers as (
    select
        naming_events.session_no,
        naming_events.window_no,
        list(distinct naming_events.provider) as providers,
        list(distinct naming_events.provider) filter (
            where models.main_model is null or naming_events.model = models.main_model
        ) as main_providers
    from naming_events
    left join models using (session_no, window_no)
    where naming_events.provider is not null
    group by
        naming_events.session_no,
        naming_events.window_no
),

-- How the main model ran, by the rule of the model itself; '' is the usual.
tokens_by_variant as (
    select
        naming_events.session_no,
        naming_events.window_no,
        coalesce(naming_events.model_variant, '') as variant,
        coalesce(
            sum(naming_events.output_tokens) filter (where naming_events.is_request), 0
        )::hugeint as output_tokens
    from naming_events
    inner join models
        on
            naming_events.session_no = models.session_no
            and naming_events.window_no = models.window_no
            and naming_events.model = models.main_model
    group by
        naming_events.session_no,
        naming_events.window_no,
        variant
),

variants as (
    select
        session_no,
        window_no,
        case
            when count(*) = 1 then any_value(variant)
            when sum(output_tokens) > 0 and 5 * max(output_tokens) >= 4 * sum(output_tokens)
                then arg_max(variant, output_tokens)
            else 'mixed'
        end as variant
    from tokens_by_variant
    group by
        session_no,
        window_no
),

-- Some sources say 0 where they do not know: nothing went in and yet something came out.
tokens as (
    select
        *,
        coalesce(output_tokens, 0) > 0
        and coalesce(input_tokens, 0) = 0
        and coalesce(cache_read_tokens, 0) = 0
        and coalesce(cache_creation_tokens, 0) = 0 as is_input_unknown
    from totals
)

select
    tokens.session_no,
    tokens.window_no,
    tokens.api_requests,
    tokens.api_errors,
    tokens.ends_in_error,
    case when not is_input_unknown then try_cast(input_tokens as bigint) end as input_tokens,
    try_cast(output_tokens as bigint) as output_tokens,
    case
        when not is_input_unknown then try_cast(cache_read_tokens as bigint)
    end as cache_read_tokens,
    case
        when not is_input_unknown then try_cast(cache_creation_tokens as bigint)
    end as cache_creation_tokens,
    try_cast(reasoning_tokens as bigint) as reasoning_tokens,
    case when not is_input_unknown then try_cast(total_tokens as bigint) end as total_tokens,
    tokens.cost_usd,
    tokens.cost_known_calls,
    tokens.api_ms,
    tokens.api_ms / tokens.timed_requests as mean_api_ms,
    -- Those that answered.
    case when tokens.api_requests > 0 then models.models end as models,
    case when models.models is not null then coalesce(models.main_model, 'mixed') end as model,
    nullif(variants.variant, '') as model_variant,
    case
        when len(providers.providers) = 1 then providers.providers[1]
        when len(providers.main_providers) = 1 then providers.main_providers[1]
        when len(providers.main_providers) > 1 then 'mixed'
    end as provider
from tokens
left join models using (session_no, window_no)
left join variants using (session_no, window_no)
left join providers using (session_no, window_no)
