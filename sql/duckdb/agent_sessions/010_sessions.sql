-- Grain: one row per session: an organization and a session id that sent events of its own.
-- Reads: agent_events, of one date or of several: each date by itself.
-- A don or doff is no event of its own: it says whose work the others were. An evaluation came
-- from outside.
select
    row_number() over (
        order by
            session_date,
            coalesce(organization_id, 'default'),
            session_id
    ) as session_no,
    coalesce(organization_id, 'default') as organization_id,
    session_id,
    session_date,
    min(event_time) as first_event_at
from agent_events
where event_name not in ('masque_don', 'masque_doff', 'evaluation')
group by
    coalesce(organization_id, 'default'),
    session_id,
    session_date
