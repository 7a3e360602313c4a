-- Grain: one row per session window with its scores; the analysts' view of both tables.
-- Reads: agent_sessions, session_performance.
select
    agent_sessions.*,
    scores.quality,
    scores.autonomy,
    scores.productivity,
    scores.token_efficiency,
    scores.cost_efficiency,
    scores.composite,
    scores.recommendation,
    scores.scorable,
    scores.partial,
    scores.reason,
    scores.percentile_in_class
from agent_sessions
left join session_performance as scores
    on
        agent_sessions.organization_id = scores.organization_id
        and agent_sessions.session_key = scores.session_key
