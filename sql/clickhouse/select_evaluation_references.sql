-- Grain: one row per evaluation and its texts, with all of its versions.
-- Reads: agent_evaluations.
select distinct
    concat(organization_id, '\0', agent_id, '\0', evaluation_id) as id,
    '' as identity_id,
    organization_id,
    reference_id,
    [evaluation_id, agent_id, model, toString(source)] as words
from agent_evaluations
