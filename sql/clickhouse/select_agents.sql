-- Grain: one row per agent that a signal or an evaluation names.
-- Reads: agent_evaluations, reputation_events.
-- Not with `final`: a row that no longer counts names an agent no less.
select
    organization_id,
    agent_id
from agent_evaluations
where is_deleted = 0
union distinct
select
    attributes['organization_id'] as organization_id,
    attributes['agent_id'] as agent_id
from reputation_events
where is_deleted = 0 and mapContains(attributes, 'agent_id')
