-- Grain: the row of one identity as of a time, none when it had no signal in 120 days.
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
where identity_id = {identity_id:UUID}
-- In `where` the name means the column, not the text that is selected under it.
settings prefer_column_name_to_alias = 1
