-- Grain: one row per time that a masque was put on in a session.
-- Reads: session_events.
with dons as (
    select
        session_no,
        position as don_position,
        event_time as donned_at,
        masque
    from session_events
    where
        event_name = 'masque_don'
        and masque is not null
    -- Of several at one time the last is worn.
    qualify row_number() over (
        partition by
            session_no,
            event_time
        order by position desc
    ) = 1
),

doffs as (
    select
        session_no,
        position as doff_position,
        event_time as doffed_at,
        masque
    from session_events
    where event_name = 'masque_doff'
),

-- A doff ends what is worn when it comes, if it names that masque or none; the first one counts.
closings as (
    select
        dons.session_no,
        dons.don_position,
        min(doffs.doff_position) as doff_position,
        min(doffs.doffed_at) as doffed_at
    from doffs
    asof inner join dons
        on
            doffs.session_no = dons.session_no
            and doffs.doffed_at > dons.donned_at
    where coalesce(doffs.masque, dons.masque) = dons.masque
    group by
        dons.session_no,
        dons.don_position
),

wearings as (
    select
        dons.*,
        closings.doff_position,
        closings.doffed_at,
        lag(closings.doff_position) over (
            partition by dons.session_no
            order by dons.don_position
        ) as doff_position_before
    from dons
    left join closings
        on
            dons.session_no = closings.session_no
            and dons.don_position = closings.don_position
),

-- Put on and taken off at one time: the doff there that does not end the wearing before.
instants as (
    select
        wearings.session_no,
        wearings.don_position,
        min(doffs.doff_position) as doff_position,
        min(doffs.doffed_at) as doffed_at
    from wearings
    inner join doffs
        on
            wearings.session_no = doffs.session_no
            and wearings.donned_at = doffs.doffed_at
            and wearings.doff_position_before is distinct from doffs.doff_position
    where coalesce(doffs.masque, wearings.masque) = wearings.masque
    group by
        wearings.session_no,
        wearings.don_position
)

select
    wearings.session_no,
    wearings.don_position,
    wearings.donned_at,
    wearings.masque,
    coalesce(instants.doff_position, wearings.doff_position) as doff_position,
    coalesce(instants.doffed_at, wearings.doffed_at) as doffed_at
from wearings
left join instants
    on
        wearings.session_no = instants.session_no
        and wearings.don_position = instants.don_position
