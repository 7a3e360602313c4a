-- Grain: one row per session window that is in only one of the two tables.
-- Reads: agent_sessions, session_performance.
select
    coalesce(sessions.session_date, scores.session_date) as session_date,
    coalesce(sessions.organization_id, scores.organization_id) as organization_id,
    coalesce(sessions.session_key, scores.session_key) as session_key,
    case when scores.session_key is null then 'no score' else 'no session' end as what_is_missing
from agent_sessions as sessions
full outer join session_performance as scores
    on
        sessions.organization_id = scores.organization_id
        and sessions.session_key = scores.session_key
        and sessions.session_date = scores.session_date
        and sessions.content_hash = scores.content_hash
where
    sessions.session_key is null
    or scores.session_key is null
order by
    session_date,
    organization_id,
    session_key
