-- Grain: one row per evaluation and what it is about, with all of its versions.
-- Reads: agent_evaluations.
select distinct
    evaluation_id as id,
    '' as identity_id,
    organization_id,
    reference_id,
    [agent_id] as words
from agent_evaluations
where reference_id != ''
