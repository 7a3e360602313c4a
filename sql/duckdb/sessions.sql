-- Grain: one row per session window with its scores; the analysts' view of both tables.
-- Reads: agent_sessions, session_performance.
select
    agent_sessions.*,
    -- All scores, without the columns that describe the window: agent_sessions has them.
    scores.* exclude (
        organization_id, session_id, session_key, session_date, agent_id, masque, attribution,
        source_cli, model, task_class, started_at, ended_at, content_hash
    )
from agent_sessions
left join session_performance as scores
    on
        agent_sessions.organization_id = scores.organization_id
        and agent_sessions.session_key = scores.session_key
