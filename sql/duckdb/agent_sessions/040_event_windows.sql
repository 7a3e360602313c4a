-- Grain: one row per event of a session (without dons and doffs): the window it belongs to.
-- Reads: session_events, masque_wearings.
-- Windows are runs of events under the same wearing, or where a session has no don, under the same
-- masque by attribute. A window's number is that of its run.
with sessions_with_dons as (
    select distinct session_no
    from masque_wearings
),

-- Most sessions know no masque: they are one window, and need no search for runs.
sessions_with_masques as (
    select distinct session_no
    from session_events
    where masque is not null
),

plain as (
    select *
    from session_events
    where
        not is_attribution
        and session_no not in (select session_no from sessions_with_masques)
),

worn as (
    select
        events.* exclude (masque),
        events.event_name in ('user_prompt', 'tool_result', 'tool_decision') as is_prompt_or_call,
        dons.session_no is not null as has_dons,
        -- At the time of a don the new masque is worn, at the time of a doff still the old one.
        events.event_time <= coalesce(wearings.doffed_at, 'infinity') as is_worn,
        wearings.wearing_no as latest_wearing_no,
        wearings.masque as donned_masque,
        events.masque as attribute_masque
    from session_events as events
    left join sessions_with_dons as dons using (session_no)
    asof left join masque_wearings as wearings
        on
            events.session_no = wearings.session_no
            and events.event_time >= wearings.worn_from
    where
        not events.is_attribution
        and events.session_no in (select session_no from sessions_with_masques)
),

-- An event without the attribute goes with the one before it, at the start with the one after.
labeled as (
    select
        *,
        case when is_worn then latest_wearing_no end as wearing_no,
        case
            when has_dons then case when is_worn then donned_masque end
            else coalesce(
                last_value(attribute_masque ignore nulls) over in_order,
                first_value(attribute_masque ignore nulls) over whole_session
            )
        end as masque
    from worn
    window
        in_order as (
            partition by session_no
            order by position
        ),
        whole_session as (
            partition by session_no
            order by position
            rows between unbounded preceding and unbounded following
        )
),

marked as (
    select
        *,
        (masque is distinct from lag(masque) over in_order)
        or (wearing_no is distinct from lag(wearing_no) over in_order) as starts_run
    from labeled
    window in_order as (
        partition by session_no
        order by position
    )
),

numbered as (
    select
        *,
        -- No filter: over a window it takes DuckDB a hundred times as long, with long sessions.
        (1 + count(case when starts_run then 1 end) over in_order)::bigint as run_no
    from marked
    window in_order as (
        partition by session_no
        order by position
    )
),

runs as (
    select
        session_no,
        run_no,
        masque is not null or bool_or(is_prompt_or_call) as stands_alone
    from numbered
    group by
        session_no,
        run_no,
        masque,
        wearing_no
),

-- Next to masques, what holds no prompt and no tool call joins the window after it, the last one
-- the window before it; the neighbours of such a run are always masques.
run_windows as (
    select
        session_no,
        run_no,
        case
            when stands_alone then run_no
            else coalesce(
                lead(run_no) over in_order,
                lag(run_no) over in_order,
                run_no
            )
        end as window_no
    from runs
    window in_order as (
        partition by session_no
        order by run_no
    )
)

select
    numbered.session_no,
    run_windows.window_no,
    numbered.position,
    numbered.prompt_position,
    numbered.row_no,
    numbered.event_id,
    numbered.event_time,
    numbered.previous_event_at,
    numbered.event_name,
    numbered.is_work,
    numbered.is_lifecycle,
    numbered.has_content,
    numbered.masque,
    numbered.wearing_no
from numbered
inner join run_windows using (session_no, run_no)
union all
select
    session_no,
    1 as window_no,
    position,
    prompt_position,
    row_no,
    event_id,
    event_time,
    previous_event_at,
    event_name,
    is_work,
    is_lifecycle,
    has_content,
    null as masque,
    null as wearing_no
from plain
