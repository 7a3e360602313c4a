-- Grain: one row per evaluation among the newest 500 of each agent up to {as_of}.
-- Reads: agent_evaluations.
select
    organization_id,
    agent_id,
    evaluation_id,
    evaluated_at,
    passed,
    latency_ms,
    latency_budget_ms,
    nullIf(model, '') as model,
    toInt64(count() over (partition by organization_id, agent_id)) as evaluations_in_all
from agent_evaluations final
where evaluated_at <= {as_of:DateTime64(6, 'UTC')}
order by
    organization_id asc,
    agent_id asc,
    evaluated_at desc,
    evaluation_id desc
limit 500 by organization_id, agent_id
