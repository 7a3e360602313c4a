-- Grain: one row per live evaluation among {ids}, several for one that is being moved.
-- Reads: agent_evaluations.
-- Not with `final`: that would merge the whole table to find a few rows.
with versions as (
    select *
    from agent_evaluations
    where evaluation_id in {ids:Array(String)}
    order by
        revision desc,
        is_deleted desc
    limit 1 by evaluation_id, organization_id, agent_id, evaluated_at
)

select
    evaluation_id,
    organization_id,
    agent_id,
    evaluated_at,
    passed,
    latency_ms,
    latency_budget_ms,
    nullIf(model, '') as model,
    source,
    reference_id,
    toInt64(revision) as revision
from versions
where is_deleted = 0
order by
    evaluation_id,
    revision,
    organization_id,
    agent_id,
    evaluated_at
