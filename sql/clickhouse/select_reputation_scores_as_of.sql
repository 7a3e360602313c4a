-- Grain: one row per identity with a signal in the 120 days up to {as_of}, computed as of then.
-- Reads: reputation_scores_as_of.
select
    toString(identity_id) as identity_id,
    computed_at,
    overall_score,
    task_quality_score,
    economic_score,
    identity_hygiene_score,
    toInt64(total_events) as total_events,
    toInt64(positive_events) as positive_events,
    toInt64(negative_events) as negative_events,
    confidence,
    score_7d_ago,
    score_30d_ago,
    overall_observed,
    categories_observed,
    weighted_overall
from reputation_scores_as_of(as_of = {as_of:String})
order by identity_id
