-- Grain: one row per signal and its texts, with all of its versions.
-- Reads: reputation_events.
select distinct
    toString(event_id) as id,
    toString(identity_id) as identity_id,
    attributes['organization_id'] as organization_id,
    reference_id,
    arrayConcat(
        mapKeys(attributes),
        mapValues(attributes),
        [toString(category), toString(event_type), reference_type]
    ) as words
from reputation_events
