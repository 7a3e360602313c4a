-- Grain: one row per window of a session.
-- Reads: sessions, masque_wearings, event_windows.
with spans as (
    select
        session_no,
        window_no,
        -- A run that joined this window has neither.
        max(masque) as masque,
        max(wearing_no) as wearing_no,
        min(position) as first_position,
        min(event_time) as first_event_at,
        -- An outcome may come long after the work.
        coalesce(max(event_time) filter (where event_name <> 'outcome'), max(event_time))
            as last_event_at
    from event_windows
    group by
        session_no,
        window_no
),

-- The slug is for reading, in any script: two masques that share one, or one called "baseline",
-- are told apart by their number.
named as (
    select
        *,
        case
            when masque is null then 'baseline'
            else coalesce(
                nullif(
                    trim(regexp_replace(lower(masque), '[^\p{L}\p{M}\p{N}]+', '-', 'g'), '-'),
                    ''
                ),
                'masque'
            )
        end as slug
    from spans
)

select
    named.session_no,
    named.window_no,
    -- The number among the windows of all sessions.
    row_number() over (
        order by
            named.session_no,
            named.window_no
    ) as session_window_no,
    named.masque,
    named.first_position,
    named.last_event_at,
    wearings.don_position,
    wearings.doff_position,
    sessions.session_id || '#' || named.slug || '-' || row_number() over (
        partition by
            named.session_no,
            named.slug
        order by named.first_position
    ) as session_key,
    case
        when named.masque is null and max(named.masque) over whole_session is null then 'baseline'
        when named.masque is null then 'remainder'
        when min(named.masque) over whole_session = max(named.masque) over whole_session
            then 'clean'
        else 'mixed'
    end as attribution,
    case
        when wearings.donned_at is null then named.first_event_at
        else greatest(wearings.donned_at, sessions.first_event_at)
    end as started_at,
    coalesce(wearings.doffed_at, named.last_event_at) as ended_at
from named
inner join sessions using (session_no)
left join masque_wearings as wearings using (session_no, wearing_no)
window whole_session as (partition by named.session_no)
