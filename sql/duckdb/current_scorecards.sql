-- Grain: one row per session window and profile: the card that counts now.
-- Reads: scorecards, session_evaluations.
-- A card stays as it was written: a session that grew, or a profile with a new version, leaves
-- older ones behind, which were the best match in their time.
select
    cards.* replace (
        cards.profile_id is not distinct from evaluations.profile_id as is_best_match
    )
from scorecards as cards
inner join session_evaluations as evaluations using (organization_id, session_key, content_hash)
qualify row_number() over (
    partition by
        cards.organization_id,
        cards.session_key,
        cards.profile_id
    order by cards.profile_version desc
) = 1
