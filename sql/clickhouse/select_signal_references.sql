-- Grain: one row per signal and what it is about, with all of its versions.
-- Reads: reputation_events.
select distinct
    toString(event_id) as id,
    toString(identity_id) as identity_id,
    attributes['organization_id'] as organization_id,
    reference_id,
    mapValues(attributes) as words
from reputation_events
where reference_id != '' or notEmpty(attributes)
